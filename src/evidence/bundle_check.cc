#include "evidence/bundle_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>

#include "core/decide.h"
#include "core/invariants.h"
#include "core/json.h"
#include "crypto/sha256.h"
#include "engine/workflows.h"
#include "evidence/archive.h"
#include "evidence/bundle.h"
#include "evidence/parts.h"
#include "evidence/redaction.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

// Where they stand in the archive.
constexpr std::array<std::string_view, 12> part_names{
    "manifest.json",  "signature.json", "run.json",  "steps.json",      "events.jsonl", "decisions.json",
    "approvals.json", "receipts.json",  "cost.json", "checkpoint.json", "keys.json",    "workflow.yaml"};

std::int64_t number_in(const object& in, std::string_view name) {
  const Json* value = in.if_contains(name);
  return value && value->is_int64() ? value->get_int64() : -1;
}

// Where two values differ first. What `made` has and `said` lacks is left out: a newer pawl may derive more.
std::optional<std::string> difference(const Json& said, const Json& made, const std::string& path) {
  if (said.is_object() && made.is_object()) {
    for (const auto& [name, value] : said.get_object()) {
      const Json* other = made.get_object().if_contains(name);
      std::string inner = path + "/" + std::string(name);
      if (!other) return inner;
      if (auto found = difference(value, *other, inner)) return found;
    }
    return std::nullopt;
  }
  if (said.is_array() && made.is_array()) {
    const array &a = said.get_array(), &b = made.get_array();
    if (a.size() != b.size()) return path + fmt::format(" (it has {} items, the events make {})", a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      if (auto found = difference(a[i], b[i], path + "/" + std::to_string(i))) return found;
    return std::nullopt;
  }
  return canonical(said) == canonical(made) ? std::nullopt : std::optional(path);
}

class BundleCheck {
 public:
  BundleCheck(const std::set<std::string>& trusted, const std::function<void(const BundleFinding&)>& found)
      : trusted_(trusted), found_(found) {}

  BundleSummary check(std::string_view bytes) {
    auto parts = read_archive(bytes);
    if (!parts) {
      report("bundle", parts.error());
      return summary_;
    }
    check_names(*parts);
    for (ArchivePart& part : *parts) parts_[part.name] = std::move(part.bytes);
    if (!check_manifest()) return summary_;
    check_sums();
    check_signature_of_manifest();
    if (read_workflow() && check_events()) {
      check_fold();
      check_decisions();
    }
    check_checkpoint();
    return summary_;
  }

 private:
  void report(std::string part, std::string what, std::uint64_t seq = 0) {
    found_({std::move(part), seq, std::move(what)});
  }

  void check_names(const std::vector<ArchivePart>& parts) {
    for (const ArchivePart& part : parts)
      if (std::ranges::find(part_names, part.name) == part_names.end())
        report(part.name, "it does not belong to a bundle");
    for (std::string_view name : part_names)
      if (std::ranges::find(parts, name, &ArchivePart::name) == parts.end()) report(std::string(name), "it is missing");
    if (parts.size() == part_names.size() && !std::ranges::equal(parts, part_names, {}, &ArchivePart::name))
      report("bundle", "its parts are not in their order: it was packed again");
  }

  // Null, and said so, when it is not there or no JSON.
  const Json* json(const std::string& name) {
    auto part = parts_.find(name);
    if (part == parts_.end()) return nullptr;  // its absence has been reported
    auto& value = values_[name];
    if (value) return &*value;
    auto read = parse_json(part->second);
    if (!read) {
      report(name, read.error());
      return nullptr;
    }
    value = std::move(*read);
    return &*value;
  }

  bool check_manifest() {
    const Json* value = json("manifest.json");
    if (!value || !value->is_object()) {
      if (value) report("manifest.json", "it is not an object");
      return false;
    }
    manifest_ = &value->get_object();
    if (text_in(*manifest_, "format") != bundle_format) {
      report("manifest.json", "this is not the manifest of a pawl bundle");
      return false;
    }
    if (number_in(*manifest_, "version") != bundle_version) {
      report("manifest.json", fmt::format("the bundle has format {}, this pawl knows {}",
                                          number_in(*manifest_, "version"), bundle_version));
      return false;
    }
    auto tenant = TenantId::parse(text_in(*manifest_, "tenant"));
    auto run = RunId::parse(text_in(*manifest_, "run"));
    auto head = Hash::parse(text_in(*manifest_, "head"));
    auto mode = parse_enum<EvidenceDetail>(text_in(*manifest_, "mode"));
    if (!tenant || !run || !head || !mode) {
      report("manifest.json", "its tenant, run, head or mode cannot be read");
      return false;
    }
    run_.tenant = *tenant;
    run_.id = *run;
    head_ = *head;
    summary_.run = run->str();
    summary_.tenant = tenant->str();
    summary_.mode = to_string(*mode);
    return true;
  }

  void check_sums() {
    const Json* sums = manifest_->if_contains("parts");
    std::set<std::string> listed{"manifest.json", "signature.json"};
    if (sums && sums->is_array())
      for (const Json& each : sums->get_array()) {
        if (!each.is_object()) continue;
        const object& sum = each.get_object();
        const std::string name = text_in(sum, "name");
        listed.insert(name);
        auto part = parts_.find(name);
        if (part == parts_.end()) {
          report(name, "the manifest lists it and it is not there");
        } else if (number_in(sum, "bytes") != static_cast<std::int64_t>(part->second.size()) ||
                   text_in(sum, "sha256") != sha256(part->second).hex()) {
          report(name, "it is not what the manifest has the sum of");
        }
      }
    for (const auto& [name, bytes] : parts_)
      if (!listed.contains(name)) report(name, "the manifest does not list it");
  }

  void check_signature_of_manifest() {
    const Json* keys = json("keys.json");
    const Json* signature = json("signature.json");
    if (!keys || !signature) return;
    auto known = read_keys_object(*keys);
    if (!known) return report("keys.json", known.error());
    if (auto checked = check_keys(*known); !checked) report("keys.json", checked.error());
    keys_ = std::move(*known);
    // Trust goes forwards only: a later key vouches for nothing that was signed before it.
    auto first = std::ranges::find_if(keys_, [&](const KnownKey& key) { return trusted_.contains(key.id()); });
    if (first == keys_.end())
      report("keys.json",
             fmt::format("no key of the bundle is one that you trust; it is signed by {}", keys_.back().id()));
    if (!signature->is_object()) return report("signature.json", "it is not an object");
    summary_.key = text_in(signature->get_object(), "key");
    auto signer = std::ranges::find(keys_, summary_.key, &KnownKey::id);
    auto value = Signature::parse(text_in(signature->get_object(), "signature"));
    // Nothing has the sum of this part, so nothing may be hidden in it.
    if (!value ||
        parts_["signature.json"] != canonical(object{{"key", summary_.key}, {"signature", value->hex()}}) + "\n")
      report("signature.json", "it is not a key and its signature alone, in canonical form");
    if (signer == keys_.end()) return report("signature.json", "it names a key that is not in keys.json");
    if (first != keys_.end() && signer < first)
      report("signature.json", "it is signed by a key that was replaced before the one that you trust");
    if (!value || !verify_signature(signer->public_key, signed_manifest(parts_["manifest.json"]), *value))
      report("signature.json", "the signature does not fit the manifest");
  }

  bool read_workflow() {
    auto source = parts_.find("workflow.yaml");
    if (source == parts_.end()) return false;
    auto workflow = compile_workflow(source->second, "workflow.yaml", nullptr);
    if (!workflow) {
      report("workflow.yaml", workflow.error());
      return false;
    }
    workflow_ = std::move(*workflow);
    run_.workflow = &workflow_;
    return true;
  }

  // {"event":{...},"hash":"...","redacted":[...],"seq":n}, whose event stands there as it was hashed.
  struct EventLine {
    std::string_view text;
    Hash hash;
    std::vector<std::string> redacted;
    std::uint64_t seq = 0;
  };
  std::expected<EventLine, std::string> read_line(std::string_view line) {
    constexpr std::string_view begin = R"({"event":)", middle = R"(,"hash":")";
    const auto end = line.rfind(middle);
    if (!line.starts_with(begin) || end == line.npos || end < begin.size())
      return std::unexpected("the line is not one of a bundle's events");
    EventLine out{.text = line.substr(begin.size(), end - begin.size())};
    // What follows the event, on its own.
    auto rest = parse_json("{" + std::string(line.substr(end + 1)));
    if (!rest || !rest->is_object()) return std::unexpected("the line is not one of a bundle's events");
    const object& in = rest->get_object();
    auto hash = Hash::parse(text_in(in, "hash"));
    if (!hash || number_in(in, "seq") < 1) return std::unexpected("the line lacks its hash or its number");
    out.hash = *hash;
    out.seq = static_cast<std::uint64_t>(number_in(in, "seq"));
    if (const Json* names = in.if_contains("redacted"); names && names->is_array())
      for (const Json& name : names->get_array())
        if (name.is_string()) out.redacted.emplace_back(name.get_string());
    if (in.size() != (out.redacted.empty() ? 2u : 3u)) return std::unexpected("the line has more than it should");
    return out;
  }

  // False when the stream cannot be folded to its end.
  bool check_events() {
    auto part = parts_.find("events.jsonl");
    if (part == parts_.end()) return false;
    Hash head = genesis(StreamKey::of(run_.tenant, run_.id));
    std::uint64_t seq = 0;
    for (std::string_view rest = part->second; !rest.empty();) {
      const auto end = rest.find('\n');
      ++seq;
      if (end == rest.npos) return refuse(seq, "the line has no end: the part was cut short");
      auto line = read_line(rest.substr(0, end));
      rest.remove_prefix(end + 1);
      if (!line) return refuse(seq, line.error());
      if (line->seq != seq)
        return refuse(seq, fmt::format("here stands event {}: one is missing or was moved", line->seq));
      if (!check_event(*line, head)) return false;
      head = line->hash;
    }
    summary_.events = seq;
    if (number_in(*manifest_, "seq") != static_cast<std::int64_t>(seq))
      report("events.jsonl",
             fmt::format("it ends at event {}, the manifest says {}", seq, number_in(*manifest_, "seq")));
    if (head != head_) report("events.jsonl", "the chain does not end at the head that the manifest names");
    return seq > 0;
  }

  bool check_event(const EventLine& line, const Hash& before) {
    auto event = parse_run_event(line.text);
    if (!event) return refuse(line.seq, event.error());
    if (line.redacted.empty()) {
      if (chain_next(sha256, before, line.text) != line.hash)
        report("events.jsonl", "its hash is not that of the event and the hash before it", line.seq);
      check_digest(*event, line.seq);
    } else {
      ++summary_.redacted;
      // Only what carries values can be redacted: nothing else may escape its hash.
      std::string again;
      append_event(again, *event);
      if (redact(*event).names != line.redacted || again != line.text || !are_digests(*event))
        report("events.jsonl", "it is marked as redacted and is not what redacting leaves", line.seq);
    }
    if (line.seq == 1)
      if (const auto* created = std::get_if<RunCreated>(&event->payload)) {
        workflow_.version = created->version;
        if (created->workflow_digest != sha256(workflow_.source).hex() || created->workflow != workflow_.name)
          report("workflow.yaml", "it is not the workflow that the run was created with");
      }
    if (auto folded = evolve_checked(run_, *event); !folded) return refuse(line.seq, folded.error());
    events_.push_back({line.seq, std::move(*event)});
    return true;
  }

  // With all of an action in hand, its digest can be made again.
  void check_digest(const RunEvent& event, std::uint64_t seq) {
    const Proposal* proposal = nullptr;
    if (const auto* each = std::get_if<ApprovalRequested>(&event.payload)) proposal = each->proposal.get();
    if (const auto* each = std::get_if<ReceiptIntended>(&event.payload)) proposal = each->proposal.get();
    if (const auto* each = std::get_if<ActionDenied>(&event.payload)) proposal = each->proposal.get();
    if (const auto* each = std::get_if<ActionFound>(&event.payload)) proposal = each->proposal.get();
    if (proposal && digest_of(sha256, proposal->action) != proposal->digest)
      report("events.jsonl", "the digest is not that of the action", seq);
  }

  static bool are_digests(const RunEvent& event) {
    auto is_digest = [](const JsonText& text) {
      auto value = text.empty() ? std::unexpected(std::string()) : parse_json(text);
      return text.empty() || (value && value->is_object() && Hash::parse(text_in(value->get_object(), "sha256")) &&
                              number_in(value->get_object(), "bytes") >= 0);
    };
    if (const auto* each = std::get_if<RunCreated>(&event.payload)) return is_digest(each->input);
    if (const auto* each = std::get_if<StepCompleted>(&event.payload)) return is_digest(each->output);
    if (const auto* each = std::get_if<StepArrived>(&event.payload)) return is_digest(each->output);
    if (const auto* each = std::get_if<RunObserved>(&event.payload)) return is_digest(each->output);
    if (const auto* each = std::get_if<StepAsked>(&event.payload)) return is_digest(each->question);
    if (const auto* each = std::get_if<StepAnswered>(&event.payload)) return is_digest(each->answer);
    if (const auto* each = std::get_if<ReceiptMoved>(&event.payload))
      return is_digest(each->response) && (!each->undo || is_digest(each->undo->action.fields));
    return true;
  }

  bool refuse(std::uint64_t seq, std::string what) {
    report("events.jsonl", std::move(what), seq);
    return false;
  }

  void check_fold() {
    summary_.status = to_string(run_.status);
    for (const std::string& problem : check_run(run_)) report("events.jsonl", problem, run_.seq);
    const Json* has_ended = manifest_->if_contains("has_ended");
    if (!has_ended || !has_ended->is_bool() || has_ended->get_bool() != is_terminal(run_.status))
      report("manifest.json", "whether the run has ended is not what its events say");
    if (to_string(workflow_.evidence) != summary_.mode)
      report("manifest.json", "the mode is not the one that the workflow asks for");
    compare("run.json", run_part(run_));
    compare("steps.json", steps_part(run_));
    compare("approvals.json", approvals_part(run_));
    compare("receipts.json", receipts_part(run_));
    compare("cost.json", cost_part(run_, events_));
  }

  void compare(const std::string& name, const Json& derived) {
    const Json* said = json(name);
    if (!said) return;
    auto made = parse_json(canonical(derived));
    if (auto where = difference(*said, made.value(), ""))
      report(name, fmt::format("it is not the fold of the events: {}", where->empty() ? "all of it" : *where));
  }

  void check_decisions() {
    auto decisions = decisions_of(events_);
    const Json* value = json("decisions.json");
    const object* said = value && value->is_object() ? &value->get_object() : nullptr;
    const Json* made = said ? said->if_contains("decisions") : nullptr;
    const Json* policies = said ? said->if_contains("policies") : nullptr;
    if (!made || !policies || !policies->is_array()) {
      if (value) report("decisions.json", "it lacks its decisions or its policies");
      return;
    }
    array derived;
    for (const DecisionMade& decision : decisions) derived.push_back(decision.object);
    if (auto where = difference(*made, parse_json(canonical(derived)).value(), "/decisions"))
      report("decisions.json", "it is not the fold of the events: " + *where);
    std::set<std::int64_t> there;
    for (const Json& each : policies->get_array()) {
      if (!each.is_object()) continue;
      const object& policy = each.get_object();
      there.insert(number_in(policy, "version"));
      if (sha256(text_in(policy, "source")).hex() != text_in(policy, "digest"))
        report("decisions.json",
               fmt::format("the text of policy v{} has not its digest", number_in(policy, "version")));
    }
    for (const DecisionMade& decision : decisions)
      if (!there.contains(decision.policy_version))
        return report("decisions.json", fmt::format("the text of policy v{} is missing", decision.policy_version));
  }

  void check_checkpoint() {
    const Json* value = json("checkpoint.json");
    if (!value) return;
    auto proof = read_proof_object(*value);
    if (!proof) return report("checkpoint.json", proof.error());
    summary_.checkpoint = proof->made.checkpoint.number;
    auto wrong = [&](const std::string& what) { report("checkpoint.json", what); };
    if (proof->made.tenant != run_.tenant) wrong("the checkpoint is of another tenant");
    if (proof->entry != LogEntry{run_.id.str(), static_cast<std::uint64_t>(number_in(*manifest_, "seq")), head_})
      wrong("what it proves is not this run's last event");
    if (auto checked = check_proof(*proof); !checked) wrong(checked.error());
    if (auto checked = check_signature(proof->made, keys_); !checked) wrong(checked.error());
  }

  const std::set<std::string>& trusted_;
  const std::function<void(const BundleFinding&)>& found_;
  BundleSummary summary_;
  std::map<std::string, std::string> parts_;
  std::map<std::string, std::optional<Json>> values_;
  const object* manifest_ = nullptr;
  std::vector<KnownKey> keys_;
  Workflow workflow_;
  Hash head_;
  Run run_;
  std::vector<NumberedEvent> events_;
};

}  // namespace

std::expected<std::set<std::string>, std::string> read_trusted_keys(std::string_view text) {
  constexpr std::string_view prefix = "ed25519:", blank = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(blank), text.size()));
  text = text.substr(0, text.find_last_not_of(blank) + 1);
  if (text.starts_with(prefix) && Hash::parse(text.substr(prefix.size()))) return std::set{std::string(text)};
  if (auto key = PublicKey::parse(text)) return std::set{key->id()};
  std::set<std::string> out;
  // One JSON text, or one a line.
  auto take = [&](std::string_view part) {
    auto value = parse_json(part);
    if (!value) return;
    const array list = value->is_array() ? value->get_array() : array{*value};
    for (const Json& each : list)
      if (auto key = each.is_object() ? PublicKey::parse(text_in(each.get_object(), "public_key")) : std::nullopt)
        out.insert(key->id());
  };
  take(text);
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    take(line);
  }
  if (out.empty())
    return std::unexpected("it is no public key: 64 digits of hex, ed25519: and a fingerprint, or a file of either");
  return out;
}

BundleSummary check_bundle(std::string_view bytes, const std::set<std::string>& trusted,
                           const std::function<void(const BundleFinding&)>& found) {
  return BundleCheck(trusted, found).check(bytes);
}

void check_consistency_document(std::string_view text, const std::set<std::string>& trusted,
                                const std::function<void(const BundleFinding&)>& found) {
  auto wrong = [&](const std::string& what) { found({"proof", 0, what}); };
  auto value = parse_json(text);
  if (!value) return wrong(value.error());
  auto proof = read_consistency_object(*value);
  if (!proof) return wrong(proof.error());
  const Json* listed = value->get_object().if_contains("keys");
  auto keys = listed ? read_keys_object(*listed) : std::unexpected(std::string("\"keys\" is missing"));
  if (!keys) return wrong(keys.error());
  if (auto checked = check_keys(*keys); !checked) wrong(checked.error());
  if (std::ranges::none_of(*keys, [&](const KnownKey& key) { return trusted.contains(key.id()); }))
    wrong("no key of the proof is one that you trust");
  for (const SignedCheckpoint* made : {&proof->older, &proof->newer})
    if (auto checked = check_signature(*made, *keys); !checked)
      wrong(fmt::format("checkpoint {}: {}", made->checkpoint.number, checked.error()));
  if (auto checked = check_consistency(*proof); !checked) wrong(checked.error());
}

}  // namespace pawl
