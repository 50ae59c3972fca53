#include <boost/json/array.hpp>

#include "api/api.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

Problem invalid_workflow(std::string detail) {
  return {.status = 422, .code = "INVALID_WORKFLOW", .detail = std::move(detail)};
}

void publish(CallPtr call, Workflow workflow) {
  PublishWorkflow request{.tenant = call->who.tenant,
                          .source = {},
                          .file = {},
                          .by = call->who.actor(),
                          .workflow = std::make_shared<const Workflow>(std::move(workflow))};
  call->api.runtime().request(std::move(request), [call](std::expected<WorkflowRef, Refusal> answer) {
    if (!answer)
      return call->answer(answer.error().code == RefusalCode::invalid ? invalid_workflow(answer.error().message)
                                                                      : problem_of(answer.error()));
    call->answer(answer->is_new ? 201 : 200, object{{"name", answer->name.text}, {"version", answer->version}});
  });
}

// Read in the background: a large definition takes longer than the engine should be held up for. One that somebody else
// executes is refused when that one says that it could not; asking takes its time, too.
void publish_workflow(CallPtr call) {
  call->query.only({});
  const std::string& name = call->path[0];
  if (!is_valid_name(name)) refuse_input("name", std::string(name_rule));
  if (call->request.body.empty()) refuse_input("", "The body must be the workflow's definition, in YAML or JSON.");
  in_background(call, [call, name](Call& c) {
    auto tenant = c.api.tenants().find(c.who.tenant);
    auto workflow = c.api.runtime().read_definition(*tenant, WorkflowName{name}, c.request.body);
    if (!workflow) throw invalid_workflow(workflow.error());
    auto problem = is_foreign(workflow->provider) ? c.api.find_target_problem(*workflow) : std::nullopt;
    if (problem) throw invalid_workflow("target: " + *problem + ".");
    publish(call, std::move(*workflow));
  });
}

// What a tenant published itself.
std::map<WorkflowName, Tenant::Published> without_internal(std::map<WorkflowName, Tenant::Published> workflows) {
  std::erase_if(workflows, [](const auto& each) { return is_reserved_name(each.first.text); });
  return workflows;
}

void list_workflows(CallPtr call) {
  call->query.only({"limit", "cursor"});
  auto tenant = call->api.tenants().find(call->who.tenant);
  answer_page(
      *call, without_internal(tenant->workflows), [](const auto& each) { return each.first.text; }, is_valid_name,
      [](const auto& each) {
        return object{{"name", each.first.text}, {"version", each.second.version}, {"digest", each.second.digest}};
      });
}

void get_workflow(CallPtr call) {
  call->query.only({"version"});
  auto tenant = call->api.tenants().find(call->who.tenant);
  WorkflowName name{call->path[0]};
  auto latest = tenant->workflows.find(name);
  if (latest == tenant->workflows.end()) throw not_found();
  auto version =
      static_cast<int>(call->query.number("version", static_cast<std::uint64_t>(latest->second.version), INT32_MAX));
  in_background(call, [name, version](Call& c) {
    auto row = c.api.store().find_workflow(c.who.tenant, name, version);
    if (!row) throw not_found();
    c.answer(200, object{{"name", name.text}, {"version", version}, {"digest", row->digest}, {"source", row->source}});
  });
}

}  // namespace

std::vector<Route> workflow_routes() {
  using enum Method;
  using enum Access;
  return {
      {put, "/workflows/{name}", operator_, publish_workflow, "Publish a workflow: a new version, or the one there is",
       RouteKind::heavy},
      {get, "/workflows", viewer, list_workflows, "The workflows with their latest versions"},
      {get, "/workflows/{name}", viewer, get_workflow, "A version of a workflow, with its source"},
  };
}

}  // namespace pawl::api
