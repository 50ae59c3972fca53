// Errors as RFC 9457 problem+json. `code` is what programs look at; it is stable and documented in docs/errors.md.
#pragma once

#include <string>
#include <string_view>

#include "core/decide.h"
#include "http/message.h"

namespace pawl::api {

using namespace http;

struct Problem {
  int status = 400;
  std::string code;
  std::string detail;  // what, where, what to do
  std::string where;   // a JSON pointer into the body, or the name of a parameter; empty = the request as a whole
  Headers headers;     // Retry-After and the like
};

Response to_response(const Problem& problem);
int status_of(RefusalCode code);
Problem problem_of(const Refusal& refusal);

// 429: this tenant, or this key, has as much as it may for the moment.
Problem tenant_limit(std::string detail);

// What a foreign object and one that never was have in common: every byte.
Problem not_found();

}  // namespace pawl::api
