#include "evidence/bundle.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/decide.h"
#include "crypto/sha256.h"
#include "evidence/archive.h"
#include "evidence/parts.h"
#include "evidence/redaction.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

// The run as the bundle shows it: folded from events that carry digests where the bundle does.
struct Shown {
  Run run;
  std::vector<NumberedEvent> events;
  std::string lines;
};

void append_line(Shown& shown, std::string_view text, const Hash& hash, const std::vector<std::string>& redacted) {
  shown.lines += R"({"event":)";
  shown.lines += text;
  shown.lines += R"(,"hash":")" + hash.hex() + "\"";
  if (!redacted.empty()) {
    array names(redacted.begin(), redacted.end());
    shown.lines += ",\"redacted\":" + canonical(names);
  }
  shown.lines += ",\"seq\":" + std::to_string(shown.events.size()) + "}\n";
}

Shown show(const BundleSource& source) {
  Shown out;
  out.run.tenant = source.tenant;
  out.run.id = source.run;
  out.run.workflow = &source.workflow;
  const bool is_full = source.workflow.evidence == EvidenceDetail::full;
  Hash head = genesis(StreamKey::of(source.tenant, source.run));
  for (std::string_view rest = source.stream.lines; !rest.empty();) {
    const auto end = rest.find('\n');
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    head = chain_next(sha256, head, text);
    auto event = parse_run_event(text);
    if (!event) throw StoreFailure(fmt::format("the journal of {} is damaged: {}", source.run.str(), event.error()));
    Redacted shown{std::move(*event), {}};
    if (!is_full) shown = redact(shown.event);
    if (auto folded = evolve_checked(out.run, shown.event); !folded)
      throw StoreFailure(fmt::format("the journal of {} is damaged: {}", source.run.str(), folded.error()));
    std::string redacted_text;
    if (!shown.names.empty()) append_event(redacted_text, shown.event);
    out.events.push_back({out.events.size() + 1, std::move(shown.event)});
    append_line(out, shown.names.empty() ? text : std::string_view(redacted_text), head, shown.names);
  }
  if (head != source.stream.head || out.events.size() != source.stream.last_seq)
    throw StoreFailure(
        fmt::format("the journal of {} is damaged: its chain does not end at its head", source.run.str()));
  return out;
}

std::vector<PolicyVersion> policies_of(const std::vector<DecisionMade>& decisions, const BundleSource& source) {
  std::vector<PolicyVersion> out;
  for (const DecisionMade& decision : decisions)
    if (std::ranges::find(out, decision.policy_version, &PolicyVersion::version) == out.end())
      out.push_back(source.policy(decision.policy_version));
  return out;
}

std::string print(const Json& value) { return canonical(value) + "\n"; }

}  // namespace

Json stored_bundle_object(const std::optional<BundleRow>& row) {
  if (!row) return nullptr;
  return object{
      {"sha256", row->stored.sha256.hex()}, {"location", row->stored.where}, {"stored_at", print_time(row->at)}};
}

std::string signed_manifest(std::string_view manifest) { return "pawl evidence manifest v1\n" + std::string(manifest); }

bool is_of_governance(const EventHeader& event) {
  const std::string_view subject = event.subject();
  return subject == "approval" || subject == "receipt" || subject == "action";
}

bool is_governed(std::string_view lines) { return has_event(lines, is_of_governance); }

Bundle make_bundle(const BundleSource& source) {
  Shown shown = show(source);
  auto decisions = decisions_of(shown.events);
  std::vector<ArchivePart> parts{{"manifest.json", {}}, {"signature.json", {}}};
  parts.push_back({"run.json", print(run_part(shown.run))});
  parts.push_back({"steps.json", print(steps_part(shown.run))});
  parts.push_back({"events.jsonl", std::move(shown.lines)});
  parts.push_back({"decisions.json", print(decisions_part(decisions, policies_of(decisions, source)))});
  parts.push_back({"approvals.json", print(approvals_part(shown.run))});
  parts.push_back({"receipts.json", print(receipts_part(shown.run))});
  parts.push_back({"cost.json", print(cost_part(shown.run, shown.events))});
  parts.push_back({"checkpoint.json", print(proof_object(source.proof))});
  parts.push_back({"keys.json", print(keys_object(source.keys.known))});
  parts.push_back({"workflow.yaml", source.workflow.source});

  array sums;
  for (std::size_t i = 2; i < parts.size(); ++i)
    sums.push_back(
        object{{"name", parts[i].name}, {"bytes", parts[i].bytes.size()}, {"sha256", sha256(parts[i].bytes).hex()}});
  parts[0].bytes = print(object{{"format", bundle_format},
                                {"version", bundle_version},
                                {"tenant", source.tenant.str()},
                                {"run", source.run.str()},
                                {"mode", to_string(source.workflow.evidence)},
                                {"has_ended", is_terminal(shown.run.status)},
                                {"seq", shown.events.size()},
                                {"head", source.stream.head.hex()},
                                {"parts", std::move(sums)}});
  parts[1].bytes = print(object{{"key", source.keys.current().id()},
                                {"signature", source.keys.secret.sign(signed_manifest(parts[0].bytes)).hex()}});
  return {write_archive(parts), shown.events.size(), is_governed(source.stream.lines)};
}

}  // namespace pawl
