#include "core/approval_terms.h"

#include <algorithm>
#include <array>

namespace pawl {
namespace {

bool is_group(std::string_view approver) { return approver.starts_with(group_prefix); }

Approvers read_approvers(SourceReader& reader, const SourceNode& node, std::string_view name) {
  Approvers out;
  if (!reader.is_list(node, name)) return out;
  if (node.items.empty() || node.items.size() > approvers_max)
    reader.refuse(node.place, "`" + std::string(name) + "` names 1 to " + std::to_string(approvers_max) +
                                  " people and groups, such as [ada, group:finance]");
  for (const SourceNode& item : node.items) {
    if (reader.is_full()) break;
    auto text = reader.text(item, name, "names of people and groups, such as ada or group:finance");
    if (!text) continue;
    if (!is_valid_name(std::string_view(*text).substr(is_group(*text) ? group_prefix.size() : 0)))
      reader.refuse(item.place, quote(*text) + " is neither a person's name nor group:NAME");
    else if (std::ranges::find(out, *text) != out.end())
      reader.refuse(item.place, quote(*text) + " is named twice");
    else
      out.push_back(std::move(*text));
  }
  return out;
}

void read_escalation(SourceReader& reader, const SourceNode& node, ApprovalTerms& terms) {
  static constexpr std::array<std::string_view, 2> keys{"after", "to"};
  if (!reader.is_map(node, "escalate")) return;
  reader.only_keys(node, {.owner = "`escalate`", .here = keys});
  if (const auto* after = reader.required(node, "after", "`escalate`", "after: 4h"))
    terms.escalate = reader.duration(after->value, "after", Duration(1));
  if (const auto* to = reader.required(node, "to", "`escalate`", "to: [group:heads]"))
    terms.escalate_to = read_approvers(reader, to->value, "to");
}

// A time that nobody would see come, or a number of people that cannot be found, is a mistake.
void check_approvers(SourceReader& reader, const SourceNode& map, const ApprovalTerms& terms) {
  auto check_time = [&](const std::optional<Duration>& span, std::string_view key, std::string_view name) {
    if (span && *span >= terms.expires)
      reader.refuse(find_entry(map, key)->value.place, "`" + std::string(name) +
                                                           "` is not before the approval expires, " + "after " +
                                                           print_duration(terms.expires));
  };
  check_time(terms.remind, "remind", "remind");
  check_time(terms.escalate, "escalate", "after");
  Approvers all = terms.approvers;
  all.insert(all.end(), terms.escalate_to.begin(), terms.escalate_to.end());
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const bool is_closed = !terms.approvers.empty() && std::ranges::none_of(all, is_group);
  if (is_closed && static_cast<int>(all.size()) < terms.quorum)
    reader.refuse(find_entry(map, "approvers")->value.place,
                  "`approvers` names fewer people than must agree: " + std::to_string(terms.quorum));
}

}  // namespace

void read_approval_terms(SourceReader& reader, const SourceNode& map, ApprovalTerms& terms) {
  if (const auto* entry = find_entry(map, "tier"))
    terms.tier = reader.word<Tier>(entry->value, "tier").value_or(terms.tier);
  if (const auto* entry = find_entry(map, "two_person"))
    terms.two_person = reader.boolean(entry->value, "two_person").value_or(false);
  if (terms.two_person) terms.quorum = 2;
  if (const auto* entry = find_entry(map, "quorum")) {
    const auto quorum = reader.integer(entry->value, "quorum", {.min = 1, .max = quorum_max});
    if (terms.two_person && quorum.value_or(2) != 2)
      reader.refuse(entry->value.place, "`two_person` means a quorum of 2; remove `quorum`, or set it to 2");
    terms.quorum = quorum.value_or(terms.quorum);
  }
  if (const auto* entry = find_entry(map, "expires"))
    terms.expires = reader.duration(entry->value, "expires", Duration(1)).value_or(terms.expires);
  if (const auto* entry = find_entry(map, "approvers"))
    terms.approvers = read_approvers(reader, entry->value, "approvers");
  if (const auto* entry = find_entry(map, "remind"))
    terms.remind = reader.duration(entry->value, "remind", Duration(1));
  if (const auto* entry = find_entry(map, "escalate")) read_escalation(reader, entry->value, terms);
  check_approvers(reader, map, terms);
}

}  // namespace pawl
