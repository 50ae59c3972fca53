// Checkpoints: making them, proving by them that a run is in the journal, and checking all of a tenant's.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/tenant.h"
#include "crypto/ed25519.h"
#include "evidence/merkle.h"
#include "evidence/signing_keys.h"
#include "store/store.h"

namespace pawl {

// Of one event: more entries make several checkpoints, so that no event of a tenant's stream is large.
inline constexpr std::size_t checkpoint_entries_max = 1000;

// The one that follows the tenant's last, with these entries; signed by the key that signs for the tenant.
CheckpointMade make_checkpoint(const Tenant& tenant, std::vector<std::string> entries, const PrivateKey& key,
                               Instant now);

// What must be recorded before this key can sign for the tenant, oldest first; none when it does already. The reason is
// that the tenant's journal knows a key which leads nowhere from here.
std::expected<std::vector<SigningKeySet>, std::string> keys_to_record(const Tenant& tenant, const SigningKeys& keys);

// A checkpoint as it is shown to others.
struct SignedCheckpoint {
  TenantId tenant;
  Checkpoint checkpoint;
  Signature signature;

  Hash hash() const;
};
boost::json::object checkpoint_object(const SignedCheckpoint& made);
std::expected<SignedCheckpoint, std::string> read_checkpoint_object(const Json& value);
// By whichever of these keys it names; the reason says why not.
std::expected<void, std::string> check_signature(const SignedCheckpoint& made, const std::vector<KnownKey>& keys);

// That an entry is in the log which the checkpoint stands for.
struct EntryProof {
  SignedCheckpoint made;
  LogEntry entry;
  InclusionProof proof;
};
boost::json::object proof_object(const EntryProof& proof);
std::expected<EntryProof, std::string> read_proof_object(const Json& value);
// Not the signature; the reason says why not.
std::expected<void, std::string> check_proof(const EntryProof& proof);

// A checkpoint, and the log that it goes on from.
struct LoggedCheckpoint {
  CheckpointMade made;
  MerkleLog before;
};
// Those of a tenant, newest first, until told to stop. Reads the tenant's stream backwards.
void visit_checkpoints_back(Store& store, TenantId tenant, const std::function<bool(LoggedCheckpoint)>& visit);
// The first checkpoint that has the entry; nothing when none has. Looks at those that are not older than the entry's
// last event.
std::optional<LoggedCheckpoint> find_checkpoint(Store& store, TenantId tenant, const LogEntry& entry,
                                                Instant last_event);
// How far a clock may have been set back between an event and the checkpoint that covers it.
inline constexpr Duration clock_slack = std::chrono::minutes(10);

// That the older is the beginning of the newer. Reads the tenant's whole stream. Nothing when there are no such
// checkpoints.
struct ConsistencyProof {
  SignedCheckpoint older, newer;
  std::vector<Hash> path;
};
std::optional<ConsistencyProof> find_consistency(Store& store, TenantId tenant, std::uint64_t older,
                                                 std::uint64_t newer);
boost::json::object consistency_object(const ConsistencyProof& proof);
std::expected<ConsistencyProof, std::string> read_consistency_object(const Json& value);
std::expected<void, std::string> check_consistency(const ConsistencyProof& proof);

// Newest first, those before `before`; at most `limit`.
std::vector<SignedCheckpoint> list_checkpoints(Store& store, TenantId tenant, std::optional<std::uint64_t> before,
                                               std::size_t limit);

// Sees a tenant's events, in order, and then the heads of its streams; says what does not fit.
class CheckpointAudit {
 public:
  using Found = std::function<void(const std::string& subject, std::uint64_t seq, const std::string& what)>;
  CheckpointAudit(TenantId tenant, Found found) : tenant_(tenant), found_(std::move(found)) {}

  void see(std::uint64_t seq, const TenantEvent& event);
  // `hash_at` gives the hash after an event of the stream; nothing when the stream is shorter.
  void see_stream(const std::string& stream, const std::function<std::optional<Hash>(std::uint64_t seq)>& hash_at);
  // After all streams: those that were covered and were not seen are gone.
  void end();

  std::uint64_t checkpoints() const { return last_.number; }
  // For whoever holds a checkpoint of this tenant from outside.
  void expect(const SignedCheckpoint& held) { held_.push_back(held); }

 private:
  struct Covered {
    std::uint64_t seq = 0;
    Hash head;
    std::uint64_t checkpoint = 0;
  };
  void see_checkpoint(std::uint64_t seq, const CheckpointMade& made);
  void see_key(std::uint64_t seq, const SigningKeySet& set);

  TenantId tenant_;
  Found found_;
  MerkleLog log_;
  Checkpoint last_;
  std::vector<KnownKey> keys_;
  std::vector<SignedCheckpoint> held_;
  std::map<std::string, std::vector<Covered>> covered_;
};

}  // namespace pawl
