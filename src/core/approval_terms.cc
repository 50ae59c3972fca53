#include "core/approval_terms.h"

namespace pawl {

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
}

}  // namespace pawl
