#include "cli/history.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/decide.h"
#include "core/run_wait.h"
#include "store/run_summaries.h"

namespace pawl {

PublishedWorkflows::PublishedWorkflows(Store& store) {
  store.for_each_workflow([&](const WorkflowRow& row) {
    auto workflow = read_stored_workflow(row);
    if (!workflow) {
      problems_.push_back(fmt::format("workflow {} v{}: {}", row.name.text, row.version, workflow.error()));
      return;
    }
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

// Rows to look through at a time for what the store does not filter by.
constexpr std::size_t searched_page = 500;

bool fits(const ListedRun& run, const RunsWanted& wanted) {
  auto holds = [&](const std::string& text) { return text.find(wanted.text) != text.npos; };
  if (!wanted.text.empty() && !holds(run.id.str()) && !holds(run.workflow.text) && !holds(run.error_code)) return false;
  if (!wanted.workflow.empty() && run.workflow.text != wanted.workflow) return false;
  if (!wanted.workspace.empty() && run.workspace.text != wanted.workspace) return false;
  if (!wanted.error_code.empty() && run.error_code != wanted.error_code) return false;
  if ((wanted.since && run.created_at < *wanted.since) || (wanted.until && run.created_at > *wanted.until))
    return false;
  return (!wanted.status || run.status == *wanted.status) &&
         (!wanted.sub_state || run.sub_state() == to_string(*wanted.sub_state)) &&
         (!wanted.provider || run.summary.provider == *wanted.provider) && run.summary.retries >= wanted.retries_min;
}

bool is_listed(const WorkflowName& workflow) {
  return !is_reserved_name(workflow.text) || workflow.text.starts_with(undo_workflow_prefix);
}

// The row that folding the unfolded events will write, as far as a list shows it.
std::optional<ListedRun> row_from_stream(StreamReader& streams, const PublishedWorkflows& workflows, StreamKey key) {
  WholeStream stream = streams.read(key);
  auto created = creation_of(stream);
  if (!created) return std::nullopt;
  Run run;
  run.tenant = key.tenant;
  run.id = RunId{key.stream};
  run.workflow = workflows.find(key.tenant, created->workflow, created->version);
  if (!run.workflow) return std::nullopt;
  ListedRun row;
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
  row.phase = phase_of(run);
  row.summary = summary_of(run);
  if (auto wait = wait_of(run)) row.waits_for = describe(*wait);
  if (run.diagnostic) row.error_code = run.diagnostic->error_code;
  row.created_at = run.created_at;
  row.seq = run.seq;
  return row;
}

// Of those that stand in the tables as they are.
void add_reasons(Store& store, std::vector<ListedRun>& runs) {
  std::optional<PublishedWorkflows> workflows;
  for (ListedRun& listed : runs) {
    if (is_terminal(listed.status) || !listed.waits_for.empty()) continue;
    auto row = store.load(listed.tenant, listed.id);
    if (!row) continue;
    if (!workflows) workflows.emplace(store);
    const Workflow* workflow = workflows->find(row->tenant, row->workflow, row->version);
    auto run = workflow ? read_snapshot(row->snapshot, *workflow) : std::nullopt;
    if (!run || run->seq != listed.seq) continue;
    if (auto wait = wait_of(*run)) listed.waits_for = describe(*wait);
  }
}

}  // namespace

std::vector<ListedRun> newest_runs(Store& store, const RunsWanted& wanted, std::size_t limit) {
  StreamReader streams(store);
  std::map<RunId, ListedRun> fresh;
  auto unfolded = streams.unfolded();
  if (std::ranges::any_of(unfolded, [](StreamKey key) { return !key.is_tenant(); })) {
    PublishedWorkflows workflows(store);
    for (StreamKey key : unfolded)
      if (!key.is_tenant())
        // Streams of pawl's own, such as a task's, are no runs to anybody: the tables do not list them either.
        if (auto row = row_from_stream(streams, workflows, key); row && is_listed(row->workflow))
          fresh.emplace(row->id, std::move(*row));
  }
  std::vector<ListedRun> out;
  for (const Tenant& tenant : store.tenants()) {
    RunFilter filter;
    filter.status = wanted.status;
    filter.limit = std::max(limit + fresh.size(), wanted.is_by_status() ? std::size_t{0} : searched_page);
    for (std::size_t found = 0; found < limit;) {
      auto rows = store.list_runs(tenant.id, filter);
      auto summaries = summaries_of(store, tenant.id, rows);
      for (const RunRow& row : rows) {
        ListedRun listed{row, {}};
        if (auto summary = summaries.find(row.id); summary != summaries.end()) listed.summary = summary->second;
        if (fresh.contains(row.id) || !fits(listed, wanted)) continue;
        out.push_back(std::move(listed));
        ++found;
      }
      if (rows.size() < filter.limit) break;
      filter.before = rows.back().id;
    }
  }
  for (auto& [id, listed] : fresh)
    if (fits(listed, wanted)) out.push_back(std::move(listed));
  std::ranges::sort(out, std::greater<>(), &ListedRun::id);
  if (out.size() > limit) out.resize(limit);
  add_reasons(store, out);
  return out;
}

}  // namespace pawl
