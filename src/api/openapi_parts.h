// The tables of which the OpenAPI document is made. For openapi*.cc only.
//
// What a field holds is said in one word:
//
//   text, text/2000     a string; of at most so many characters
//   count, 1..500, 1..  a whole number, from 0; within these bounds
//   share               a number from 0 to 1
//   flag                true or false
//   map, json           any object; any value
//   Name, RunId, ...    what components/schemas has under that name
//   [Step]              a list of them
//   Time?               that, or null
#pragma once

#include <boost/json/object.hpp>
#include <string_view>
#include <vector>

#include "api/problem.h"

namespace pawl::api::openapi {

struct Field {
  std::string_view name;  // "reason?" may be left out
  std::string_view type;
  std::string_view says;
};

struct ObjectDoc {
  std::string_view name;
  std::string_view says;
  std::vector<Field> fields;
};

struct Body {
  std::string_view schema;
  std::string_view example = schema;  // in components/examples
  std::string_view content_type = "application/json";
};

struct Answer {
  int status;
  std::string_view says;
  std::vector<Body> bodies;
  std::vector<std::string_view> headers = {};  // in components/headers
};

struct RouteDoc {
  Method method;
  std::string_view pattern;
  std::string_view operation_id;
  std::string_view tag;
  std::string_view says;  // beyond the route's summary
  std::vector<Field> path = {};
  std::vector<Field> query = {};
  std::vector<Field> headers = {};
  std::vector<Body> bodies = {};
  bool body_required = true;
  std::vector<Answer> answers;
  // Beyond those that follow from the role it needs and from having a body; names of problem_docs().
  std::vector<std::string_view> problems = {};
};

struct ProblemDoc {
  std::string_view name;  // its code, unless that comes with two statuses
  Problem problem;        // as it may look
};

struct ExampleDoc {
  std::string_view name;
  std::string_view text;  // JSON
};

struct TagDoc {
  std::string_view name;
  std::string_view says;
};

// What routes answer: keys may be added in time, and clients pass over what they do not know.
std::vector<ObjectDoc> answer_objects();
// What routes take: a key that is not listed is refused.
std::vector<ObjectDoc> request_objects();
std::vector<TagDoc> tag_docs();
std::vector<RouteDoc> route_docs();
std::vector<ProblemDoc> problem_docs();

// The part of the gate: actions of remote workers, receipts, people.
std::vector<RouteDoc> governance_routes();
std::vector<ObjectDoc> governance_answers();
std::vector<ObjectDoc> governance_requests();
std::vector<ExampleDoc> governance_examples();
// The parts of these that concern evidence.
std::vector<ObjectDoc> evidence_objects();
std::vector<RouteDoc> evidence_route_docs();
std::vector<ExampleDoc> evidence_examples();
// And agents.
std::vector<ObjectDoc> agent_objects();
std::vector<ObjectDoc> agent_requests();
std::vector<RouteDoc> agent_route_docs();
std::vector<ExampleDoc> agent_examples();

// The part of those outside who are told: webhooks, Slack.
std::vector<RouteDoc> notice_routes();
std::vector<ObjectDoc> notice_answers();
std::vector<ObjectDoc> notice_requests();
std::vector<ExampleDoc> notice_examples();

// The part of tasks.
std::vector<RouteDoc> task_route_docs();
std::vector<ObjectDoc> task_answers();
std::vector<ObjectDoc> task_requests();
std::vector<ExampleDoc> task_examples();

// The schema of one such word.
boost::json::object schema_of(std::string_view type);
// components/schemas and components/examples, by name.
boost::json::object schemas();
boost::json::object examples();

}  // namespace pawl::api::openapi
