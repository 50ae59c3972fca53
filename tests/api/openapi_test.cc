#include "api/openapi.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <set>

#include "api/api.h"

namespace pawl::api {
namespace {

using boost::json::object;

object document() { return parse_json(openapi_document()).value().as_object(); }

std::string word(Method method) {
  switch (method) {
    case Method::get:
      return "get";
    case Method::head:
      return "head";
    case Method::post:
      return "post";
    case Method::put:
      return "put";
    case Method::patch:
      return "patch";
    case Method::delete_:
      return "delete";
    case Method::options:
      return "options";
  }
  return {};
}

// Calls visit(pattern, method, operation) for all of them.
template <class Visit>
void for_each_operation(const object& doc, Visit visit) {
  for (const auto& path : doc.at("paths").as_object())
    for (const auto& method : path.value().as_object())
      visit(std::string(path.key()), std::string(method.key()), method.value().as_object());
}

TEST(OpenApi, describes_the_routes_of_the_router_and_no_others) {
  std::set<std::string> routed;
  for (const Route& route : all_routes())
    EXPECT_TRUE(routed.insert(word(route.method) + " " + std::string(route.pattern)).second) << route.pattern;
  std::set<std::string> described;
  for_each_operation(document(), [&](const std::string& pattern, const std::string& method, const object&) {
    described.insert(method + " " + pattern);
  });
  EXPECT_EQ(described, routed);
}

TEST(OpenApi, names_the_role_that_the_router_asks_for) {
  auto doc = document();
  for (const Route& route : all_routes()) {
    const object& operation = doc.at("paths").at(route.pattern).at(word(route.method)).as_object();
    EXPECT_EQ(operation.contains("security"), route.access == Access::open) << route.pattern;
    auto role = parse_enum<Role>(std::string_view(operation.at("x-role").as_string()));
    EXPECT_EQ(role.has_value(), route.access != Access::open) << route.pattern;
    EXPECT_TRUE(!role || may(*role, route.access)) << route.pattern;
    // One that needs no key may have other credentials.
    EXPECT_TRUE(route.access == Access::open || operation.at("responses").as_object().contains("401")) << route.pattern;
    EXPECT_EQ(operation.at("summary").as_string(), route.summary);
  }
}

TEST(OpenApi, describes_each_name_in_a_path) {
  for_each_operation(document(), [](const std::string& pattern, const std::string& method, const object& operation) {
    std::string rest = pattern;
    const auto* parameters = operation.if_contains("parameters");
    if (parameters)
      for (const Json& parameter : parameters->as_array()) {
        if (parameter.at("in").as_string() != "path") continue;
        std::string name = "{" + std::string(parameter.at("name").as_string()) + "}";
        ASSERT_NE(rest.find(name), rest.npos) << pattern;
        rest.erase(rest.find(name), name.size());
      }
    EXPECT_EQ(rest.find('{'), rest.npos) << method << " " << pattern;
  });
}

TEST(OpenApi, has_an_example_for_every_body) {
  for_each_operation(document(), [](const std::string& pattern, const std::string& method, const object& operation) {
    auto check = [&](const object& described) {
      const auto* content = described.if_contains("content");
      if (!content) return;
      for (const auto& media : content->as_object())
        EXPECT_FALSE(media.value().at("examples").as_object().empty())
            << method << " " << pattern << " " << media.key();
    };
    if (const auto* body = operation.if_contains("requestBody")) check(body->as_object());
    for (const auto& response : operation.at("responses").as_object()) check(response.value().as_object());
  });
}

TEST(OpenApi, calls_every_operation_by_a_name_of_its_own) {
  std::set<std::string> names;
  for_each_operation(document(), [&](const std::string& pattern, const std::string&, const object& operation) {
    EXPECT_TRUE(names.insert(std::string(operation.at("operationId").as_string())).second) << pattern;
  });
}

}  // namespace
}  // namespace pawl::api
