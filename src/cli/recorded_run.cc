#include "cli/recorded_run.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "cli/text.h"
#include "core/decide.h"
#include "core/run_object.h"
#include "evidence/bundle.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

RunCreated creation_or_stop(const RecordedRun& run) {
  auto created = creation_of(run.stream);
  if (!created) throw Stop(exit_ended_badly, fmt::format("{}: {}", run.id.str(), created.error()));
  return std::move(*created);
}

std::shared_ptr<const Workflow> compile_source(const WorkflowSource& source) {
  auto workflow = compile_workflow(source.text, source.name, nullptr);
  if (!workflow) throw Stop(exit_ended_badly, workflow.error());
  workflow->version = source.version;
  return std::make_shared<const Workflow>(std::move(*workflow));
}

std::string meant(const std::string& name) { return name.empty() ? "" : fmt::format("; did you mean {}?", name); }

array requesters_in(Store& store, const RecordedRun& recorded, const RunCreated& created) {
  Run run = recorded.unborn();
  run.created_by = created.by;
  run.other_requesters = created.other_requesters;
  for (const Tenant& tenant : store.tenants())
    if (tenant.id == recorded.tenant) return requester_objects(run, &tenant);
  return {};
}

RecordedRun read_run(Store& store, const std::string& text) {
  FoundRun found = find_run(store, text);
  RecordedRun out{found.tenant, found.id, read_stream(store, StreamKey::of(found.tenant, found.id)), {}};
  RunCreated created = creation_or_stop(out);
  out.requesters = requesters_in(store, out, created);
  auto row = store.find_workflow(found.tenant, created.workflow, created.version);
  if (!row)
    throw Stop(exit_ended_badly, fmt::format("{} v{} is not in the folder", created.workflow.text, created.version));
  out.workflow = compile_source({row->name.text, row->version, row->digest, row->source});
  out.bundle = stored_bundle_object(store.find_bundle(found.tenant, found.id));
  return out;
}

}  // namespace

Run RecordedRun::unborn() const {
  Run run;
  run.tenant = tenant;
  run.id = id;
  run.workflow = workflow.get();
  return run;
}

Run RecordedRun::folded() const {
  std::string lines;
  for (const StreamLine& line : stream.lines) (lines += line.text) += '\n';
  auto run = fold_lines(tenant, id, *workflow, lines);
  if (!run) throw Stop(exit_ended_badly, fmt::format("{}: {}", id.str(), run.error()));
  return std::move(*run);
}

RecordedRun read_run(const Remote& remote, const std::string& text) {
  RecordedRun out;
  out.tenant = TenantId::parse(remote.get("/tenant").at("id").as_string()).value_or(TenantId{});
  out.id = remote.find_run(text);
  out.stream = remote.stream(out.id);
  const Json shown = remote.get("/runs/" + out.id.str());
  if (const Json* requesters = shown.as_object().if_contains("requesters")) out.requesters = requesters->as_array();
  RunCreated created = creation_or_stop(out);
  out.workflow = compile_source(read_workflow(remote, created.workflow.text, created.version));
  if (const Json* bundle = shown.as_object().if_contains("bundle")) out.bundle = *bundle;
  return out;
}

RecordedRun read_run(const std::string& server_flag, const std::filesystem::path& folder, const std::string& text) {
  if (auto remote = Remote::find_named(server_flag, folder)) return read_run(*remote, text);
  return read_run(*open_to_read(folder), text);
}

WorkflowSource read_workflow(const Remote& remote, const std::string& name, std::optional<int> version) {
  std::string path = "/workflows/" + percent_encode(name);
  if (version) path += fmt::format("?version={}", *version);
  Json row;
  try {
    row = remote.get(path);
  } catch (const Stop& stop) {
    if (stop.code() != exit_not_found) throw;
    if (version)
      throw Stop(exit_not_found,
                 fmt::format("there is no workflow {} v{} at {}", printable(name), *version, remote.url()));
    std::vector<std::string> names;
    const Json published = remote.get_all("/workflows");
    for (const Json& each : published.at("items").as_array()) names.emplace_back(each.at("name").as_string());
    throw Stop(exit_not_found, fmt::format("there is no workflow {} at {}{}", printable(name), remote.url(),
                                           meant(nearest(name, names))));
  }
  return {name, static_cast<int>(row.at("version").as_int64()), std::string(row.at("digest").as_string()),
          std::string(row.at("source").as_string())};
}

WorkflowSource read_workflow(const std::string& server_flag, const std::filesystem::path& folder,
                             const std::string& name, std::optional<int> version) {
  if (auto remote = Remote::find_named(server_flag, folder)) return read_workflow(*remote, name, version);
  auto store = open_to_read(folder);
  std::optional<WorkflowRow> found;
  std::vector<std::string> names;
  store->for_each_workflow([&](const WorkflowRow& row) {
    names.push_back(row.name.text);
    if (row.name.text == name && (version ? row.version == *version : !found || row.version > found->version))
      found = row;
  });
  if (found) return {name, found->version, found->digest, found->source};
  if (version) throw Stop(exit_not_found, fmt::format("there is no workflow {} v{}", printable(name), *version));
  throw Stop(exit_not_found, fmt::format("there is no workflow {}{}", printable(name), meant(nearest(name, names))));
}

Json list_workflows(const std::string& server_flag, const std::filesystem::path& folder) {
  if (auto remote = Remote::find_named(server_flag, folder)) return remote->get_all("/workflows");
  std::map<std::pair<TenantId, WorkflowName>, WorkflowRow> latest;
  open_to_read(folder)->for_each_workflow([&](const WorkflowRow& row) {
    WorkflowRow& known = latest[{row.tenant, row.name}];
    if (row.version > known.version) known = row;
  });
  array items;
  for (const auto& [key, row] : latest)
    items.push_back(object{{"name", row.name.text}, {"version", row.version}, {"digest", row.digest}});
  return object{{"items", std::move(items)}, {"next_cursor", nullptr}};
}

}  // namespace pawl
