// Checking all of a tenant's checkpoints against its streams.
#include <fmt/format.h>

#include <algorithm>

#include "crypto/sha256.h"
#include "evidence/checkpoints.h"

namespace pawl {

void CheckpointAudit::see(std::uint64_t seq, const TenantEvent& event) {
  if (const auto* made = std::get_if<CheckpointMade>(&event.payload)) see_checkpoint(seq, *made);
  if (const auto* set = std::get_if<SigningKeySet>(&event.payload)) see_key(seq, *set);
}

void CheckpointAudit::see_key(std::uint64_t seq, const SigningKeySet& set) {
  auto key = PublicKey::parse(set.public_key);
  if (!key || key->id() != set.key)
    return found_(tenant_.str(), seq, "a signing key whose id is not the fingerprint of its public key");
  KnownKey known{*key, set.previous, Signature::parse(set.signature), {}};
  keys_.push_back(known);
  if (auto checked = check_keys(keys_); !checked) found_(tenant_.str(), seq, checked.error());
}

void CheckpointAudit::see_checkpoint(std::uint64_t seq, const CheckpointMade& made) {
  auto wrong = [&](const std::string& what) {
    found_(tenant_.str(), seq, fmt::format("checkpoint {}: {}", made.checkpoint.number, what));
  };
  SignedCheckpoint checkpoint{tenant_, made.checkpoint, Signature::parse(made.signature).value_or(Signature{})};
  if (checkpoint.hash() != made.hash) wrong("its hash is not that of what it says");
  if (auto checked = check_signature(checkpoint, keys_); !checked) wrong(checked.error());
  for (const std::string& text : made.entries) {
    log_.append(merkle_leaf(text));
    auto entry = parse_entry(text);
    if (!entry)
      wrong(fmt::format("\"{}\" is no entry", text));
    else
      covered_[entry->stream].push_back({entry->seq, entry->head, made.checkpoint.number});
  }
  if (log_.size != made.checkpoint.size || log_.root() != made.checkpoint.root)
    wrong("its root is not that of the log's entries");
  if (log_.peaks != made.peaks) wrong("its peaks are not those of the log");
  last_ = made.checkpoint;
  // The log goes on from what is signed, or every later one would be wrong too.
  for (const SignedCheckpoint& held : held_)
    if (held.tenant == tenant_ && held.checkpoint.number == made.checkpoint.number && held.hash() != made.hash)
      wrong("it is not the one that is held elsewhere: the journal was rewritten since");
}

void CheckpointAudit::see_stream(const std::string& stream,
                                 const std::function<std::optional<Hash>(std::uint64_t seq)>& hash_at) {
  auto found = covered_.find(stream);
  if (found == covered_.end()) return;
  for (const Covered& covered : found->second) {
    auto hash = hash_at(covered.seq);
    if (hash && *hash == covered.head) continue;
    found_(stream, covered.seq,
           hash ? fmt::format("the stream was rewritten: checkpoint {} has another hash after this event",
                              covered.checkpoint)
                : fmt::format("the stream was cut short: checkpoint {} knows this event", covered.checkpoint));
    break;
  }
  covered_.erase(found);
}

void CheckpointAudit::end() {
  for (const auto& [stream, covered] : covered_)
    found_(stream, covered.back().seq,
           fmt::format("the stream is gone: checkpoint {} has it", covered.back().checkpoint));
  for (const SignedCheckpoint& held : held_)
    if (held.tenant == tenant_ && held.checkpoint.number > last_.number)
      found_(tenant_.str(), 0,
             fmt::format("the journal ends before checkpoint {}, which is held elsewhere", held.checkpoint.number));
}

}  // namespace pawl
