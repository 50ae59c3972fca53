#include "cli/served_verification.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "cli/recorded_run.h"
#include "core/invariants.h"
#include "core/run_object.h"
#include "crypto/sha256.h"

namespace pawl {
namespace {

// Of each only who it is: names of people and keys are not the run's.
void keep_actors(Json& requesters) {
  for (Json& each : requesters.as_array()) each = boost::json::object{{"actor", each.at("actor")}};
}

// Without what is not of the run's events: when a lease ends, which heartbeats move, where its bundle is, and names of
// people and keys.
std::string comparable(Json run) {
  keep_actors(run.at("requesters"));
  for (Json& approval : run.at("approvals").as_array()) keep_actors(approval.at("requesters"));
  run.as_object().erase("bundle");
  for (Json& step : run.at("steps").as_array()) step.as_object().erase("lease_expires_at");
  return canonical(run);
}

}  // namespace

ServedVerification::ServedVerification(const Remote& remote, Found found, Progress progress)
    : remote_(remote), found_(std::move(found)), progress_(std::move(progress)) {
  tenant_ = TenantId::parse(remote.get("/tenant").at("id").as_string()).value_or(TenantId{});
}

VerifyCounts ServedVerification::check() {
  counts_.tenants = 1;
  for (std::string cursor;;) {
    Json page = remote_.get("/runs?limit=500" + (cursor.empty() ? "" : "&cursor=" + cursor));
    for (const Json& item : page.at("items").as_array()) {
      std::string id(item.at("id").as_string());
      if (auto run = RunId::parse(id))
        check_run(*run);
      else
        report(id, 0, "this is not the id of a run");
      progress_(counts_);
    }
    if (page.at("next_cursor").is_null()) return counts_;
    cursor = page.at("next_cursor").as_string();
  }
}

void ServedVerification::check_run(RunId id) {
  ++counts_.runs;
  // Before its stream, which may go on meanwhile: the run is compared with the event that it stands at.
  Json shown = remote_.get("/runs/" + id.str());
  auto shown_seq = static_cast<std::uint64_t>(shown.at("seq").as_int64());
  WholeStream stream = remote_.stream(id);
  if (!check_chain(stream, id)) return;
  auto created = creation_of(stream);
  if (!created) return report(id.str(), 0, created.error());
  Run run;
  run.tenant = tenant_;
  run.id = id;
  run.workflow = workflow_of(*created, id.str());
  if (!run.workflow) return;
  for (const StreamLine& line : stream.lines) {
    ++counts_.events;
    if (!fold_line(run, line, found_)) return;
    if (line.seq != shown_seq) continue;
    for (const std::string& problem : pawl::check_run(run)) report(id.str(), line.seq, problem);
    if (comparable(run_object(run)) != comparable(shown))
      report(id.str(), line.seq, "the run is not what its stream says");
  }
  if (shown_seq > stream.lines.size())
    report(id.str(), shown_seq,
           fmt::format("the run is at an event that its stream does not have; it ends at {}", stream.lines.size()));
  counts_.approvals += run.approvals.size();
}

bool ServedVerification::check_chain(const WholeStream& stream, RunId id) {
  Hash head = genesis(StreamKey::of(tenant_, id));
  for (const StreamLine& line : stream.lines) {
    head = chain_next(sha256, head, line.text);
    if (head == line.hash) continue;
    report(id.str(), line.seq, fmt::format("the recomputed hash {} is not the one that was handed out", head.hex()));
    return false;
  }
  return true;
}

const Workflow* ServedVerification::workflow_of(const RunCreated& created, const std::string& run) {
  auto& known = workflows_[{created.workflow.text, created.version}];
  if (!known) {
    WorkflowSource source = read_workflow(remote_, created.workflow.text, created.version);
    auto workflow = compile_workflow(source.text, source.name, nullptr);
    if (!workflow) {
      report(run, 1, workflow.error());
      return nullptr;
    }
    workflow->version = created.version;
    known = std::make_unique<const Workflow>(std::move(*workflow));
  }
  if (known->digest != created.workflow_digest) report(run, 1, "its workflow is not the one it was created with");
  return known.get();
}

}  // namespace pawl
