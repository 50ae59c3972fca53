// The API described for programs: OpenAPI 3.1, at GET /openapi.json.
//
// Made of the router's own table (all_routes) and of what openapi_routes.cc says about each route, joined by method and
// pattern. A route that nobody described, a description without a route, a schema or an example that is not there: each
// of these stops the process, so that the document can be incomplete in no build that has started once.
#pragma once

#include <string>

namespace pawl::api {

// Made when first asked for, the same ever after. Any thread.
const std::string& openapi_document();

}  // namespace pawl::api
