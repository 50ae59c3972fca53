#include "cli/history.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/decide.h"

namespace pawl {

PublishedWorkflows::PublishedWorkflows(Store& store) {
  store.for_each_workflow([&](const WorkflowRow& row) {
    auto workflow = compile_workflow(row.source, row.name.text, nullptr);
    if (!workflow) {
      problems_.push_back(
          fmt::format("workflow {} v{} cannot be read: {}", row.name.text, row.version, workflow.error()));
      return;
    }
    workflow->version = row.version;
    workflows_.add(row.tenant, std::move(*workflow));
  });
}

std::expected<RunCreated, std::string> creation_of(const WholeStream& stream) {
  if (stream.lines.empty()) return std::unexpected("the stream is empty");
  auto event = parse_run_event(stream.lines[0].text);
  if (!event) return std::unexpected("seq 1: " + event.error());
  auto* created = std::get_if<RunCreated>(&event->payload);
  if (!created) return std::unexpected("seq 1: the first event does not create the run");
  return std::move(*created);
}

namespace {

// The row that folding the unfolded events will write, as far as a list shows it.
std::optional<RunRow> row_from_stream(StreamReader& streams, const PublishedWorkflows& workflows, StreamKey key) {
  WholeStream stream = streams.read(key);
  auto created = creation_of(stream);
  if (!created) return std::nullopt;
  Run run;
  run.tenant = key.tenant;
  run.id = RunId{key.stream};
  run.workflow = workflows.find(key.tenant, created->workflow, created->version);
  if (!run.workflow) return std::nullopt;
  RunRow row;
  for (const StreamLine& line : stream.lines) {
    auto event = parse_run_event(line.text);
    if (!event || !evolve_checked(run, *event)) return std::nullopt;  // `pawl verify` says what is wrong with it
    row.updated_at = event->at;
  }
  row.tenant = key.tenant;
  row.id = run.id;
  row.workflow = created->workflow;
  row.version = created->version;
  row.workspace = run.workspace;
  row.status = run.status;
  if (run.diagnostic) row.error_code = run.diagnostic->error_code;
  row.created_at = run.created_at;
  row.seq = run.seq;
  return row;
}

}  // namespace

std::vector<RunRow> newest_runs(Store& store, std::optional<RunStatus> status, std::size_t limit) {
  StreamReader streams(store);
  std::map<RunId, RunRow> fresh;
  auto unfolded = streams.unfolded();
  if (std::ranges::any_of(unfolded, [](StreamKey key) { return !key.is_tenant(); })) {
    PublishedWorkflows workflows(store);
    for (StreamKey key : unfolded)
      if (!key.is_tenant())
        if (auto row = row_from_stream(streams, workflows, key)) fresh.emplace(row->id, std::move(*row));
  }
  std::vector<RunRow> rows;
  for (const Tenant& tenant : store.tenants())
    for (RunRow& row : store.list_runs(tenant.id, {.status = status,
                                                  .workflow = {},
                                                  .workspace = {},
                                                  .since = {},
                                                  .before = {},
                                                  .limit = limit + fresh.size()}))
      if (!fresh.contains(row.id)) rows.push_back(std::move(row));
  for (auto& [id, row] : fresh)
    if (!status || row.status == *status) rows.push_back(std::move(row));
  std::ranges::sort(rows, std::greater<>(), &RunRow::id);
  if (rows.size() > limit) rows.resize(limit);
  return rows;
}

}  // namespace pawl
