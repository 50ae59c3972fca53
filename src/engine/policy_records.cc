#include "engine/policy_records.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "core/event_header.h"
#include "crypto/sha256.h"
#include "store/stream.h"

namespace pawl {
namespace {

constexpr std::size_t runs_a_look = 100;

void take_actions(const RunRow& run, const WholeStream& stream, std::size_t limit, RecordedActions& out) {
  std::set<JsonText> seen;
  for (const StreamLine& line : stream.lines) {
    auto found = find_action(line.text);
    if (!found || !seen.insert(print_action(found->action)).second) continue;
    if (out.actions.size() == limit) {
      out.is_all = false;
      return;
    }
    out.actions.push_back(
        {.action = std::move(found->action),
         .workspace = run.workspace,
         .workflow = run.workflow,
         .record = ProposedAction::Record{run.id, line.seq, found->effect, found->policy_version, found->rule}});
  }
}

}  // namespace

namespace {

std::optional<PolicyVersion> version_in(std::string_view line) {
  if (read_event_header(line).type != "policy.published") return std::nullopt;
  auto event = parse_tenant_event(line);
  auto* published = event ? std::get_if<PolicyPublished>(&event->payload) : nullptr;
  if (!published) return std::nullopt;
  return PolicyVersion{published->version, published->digest, std::move(published->source), event->at, event->by};
}

}  // namespace

namespace {

// Those in a tenant's stream, newest first, until `take` has enough and says no. A tenant's events are folded in the
// commit that brings them: history has all of them.
template <class Take>
void for_each_version_back(Store& store, TenantId tenant, Take take) {
  store.for_each_piece_back(StreamKey::of(tenant), [&](std::uint64_t, std::string_view lines) {
    std::vector<PolicyVersion> in_piece;
    while (!lines.empty())
      if (auto found = version_in(take_line(lines))) in_piece.push_back(std::move(*found));
    for (PolicyVersion& version : in_piece | std::views::reverse)
      if (!take(std::move(version))) return false;
    return true;
  });
}

}  // namespace

std::vector<PolicyVersion> policy_versions(Store& store, TenantId tenant, PolicyPage page) {
  std::vector<PolicyVersion> out;
  for_each_version_back(store, tenant, [&](PolicyVersion version) {
    if (version.version < page.before && out.size() < page.limit) out.push_back(std::move(version));
    return out.size() < page.limit;
  });
  return out;
}

std::optional<PolicyVersion> find_policy_version(Store& store, TenantId tenant, int version) {
  if (version == 0)
    return PolicyVersion{0, sha256(default_policy_source).hex(), std::string(default_policy_source), {}, {}};
  std::optional<PolicyVersion> out;
  for_each_version_back(store, tenant, [&](PolicyVersion found) {
    if (found.version == version) out = std::move(found);
    return !out && found.version > version;
  });
  return out;
}

boost::json::object policy_object(const PolicyVersion& version, bool with_source) {
  const bool is_published = version.version != 0;
  boost::json::object out{{"version", version.version},
                          {"digest", version.digest},
                          {"published_at", is_published ? Json(print_time(version.published_at)) : Json(nullptr)},
                          {"published_by", is_published ? Json(version.published_by.text) : Json(nullptr)}};
  if (with_source) out["source"] = version.source;
  return out;
}

boost::json::object try_policy(Policy& draft, const Tenant& tenant, const RecordedActions& recorded) {
  auto out = try_policy(draft, tenant, recorded.actions);
  out["is_all"] = recorded.is_all;
  return out;
}

RecordedActions recorded_actions(Store& store, TenantId tenant, std::size_t limit) {
  RecordedActions out;
  StreamReader streams(store);
  RunFilter filter{.limit = runs_a_look};
  for (std::size_t looked_at = 0;;) {
    auto runs = store.list_runs(tenant, filter);
    for (const RunRow& run : runs) {
      take_actions(run, streams.read(StreamKey::of(tenant, run.id)), limit, out);
      if (!out.is_all) return out;
    }
    if (runs.size() < runs_a_look) return out;
    looked_at += runs.size();
    if (looked_at >= recorded_runs_max) {
      out.is_all = false;
      return out;
    }
    filter.before = runs.back().id;
  }
}

}  // namespace pawl
