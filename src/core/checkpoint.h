// What a tenant's journal says about itself, signed: checkpoints over the heads of its streams, the keys that sign
// them, and which bundles were handed to the artifact store. src/evidence makes and checks them; here are their words.
//
// The heads form a log that only grows: an entry names a stream, its last event and the chain's hash after it. A
// checkpoint adds the entries of all streams that went on since the one before, and signs the Merkle root of the whole
// log. So whoever holds an old checkpoint can be shown that nothing which it covers was deleted or rewritten.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/chain.h"
#include "core/id.h"
#include "core/time.h"

namespace pawl {

// What is signed.
struct Checkpoint {
  std::uint64_t number = 0;  // from 1, without gaps
  std::uint64_t size = 0;    // entries in the log
  Hash root;                 // of the tree over them
  Hash previous;             // sha256 of the statement of the one before; zeros for the first
  Instant made_at;
  std::string key;  // the id of the key that signed it

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// Its canonical text, which the signature is over and whose sha256 the next one names.
std::string statement_of(TenantId tenant, const Checkpoint& checkpoint);

struct CheckpointMade {
  Checkpoint checkpoint;
  Hash hash;                         // sha256 of its statement
  std::string signature;             // over its statement, hex
  std::vector<Hash> peaks;           // of the log after this, so that the next one need not read all of it
  std::vector<std::string> entries;  // those that it adds, as print_entry() writes them
};

// The key that signs from now on, vouched for by the one before: its signature is over key_statement_of().
struct SigningKeySet {
  std::string key;
  std::string public_key;  // hex
  std::string previous;    // the id of the key before; empty for the first
  std::string signature;   // of that one, hex
};
std::string key_statement_of(std::string_view public_key, std::string_view previous);

struct BundleStored {
  RunId run;
  std::uint64_t seq = 0;  // the last event that it has
  Hash sha256;
  std::uint64_t bytes = 0;
  std::string where;
};

// One entry of the log: "run_01kaw3v9m8f2hr4x6q0t7c5ezy 13 9f86d0...".
struct LogEntry {
  std::string stream;  // a run's or the tenant's id
  std::uint64_t seq = 0;
  Hash head;

  friend bool operator==(const LogEntry&, const LogEntry&) = default;
};
std::string print_entry(const LogEntry& entry);
std::optional<LogEntry> parse_entry(std::string_view text);

}  // namespace pawl
