// The evidence bundle of one run: a zip that says what was done, by whom, who allowed it, and that can be checked by
// someone who does not trust the server. docs/evidence.md has the format.
//
//   manifest.json    run, tenant, mode, the stream's end, and sha256 and size of every other part
//   signature.json   Ed25519 over the manifest
//   run.json steps.json events.jsonl decisions.json approvals.json receipts.json cost.json
//   checkpoint.json  a signed checkpoint, and the proof that it covers exactly this stream
//   keys.json        public keys, each signed by the one before
//   workflow.yaml    the definition that the run is of
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/event_header.h"
#include "core/workflow.h"
#include "engine/policy_records.h"
#include "evidence/checkpoints.h"
#include "store/store.h"

namespace pawl {

inline constexpr int bundle_version = 1;
inline constexpr std::string_view bundle_format = "pawl-evidence";

// What one is made from.
struct BundleSource {
  TenantId tenant;
  RunId run;
  Store::Stream stream;
  const Workflow& workflow;
  EntryProof proof;
  // The texts of policies by version, as they are needed.
  std::function<PolicyVersion(int version)> policy;
  const SigningKeys& keys;
};

struct Bundle {
  std::string bytes;
  std::uint64_t seq = 0;
  bool is_governed = false;  // it has an approval, a receipt or a decision of a policy
};

// The same source gives the same bytes. Throws StoreFailure when the stream cannot be folded.
Bundle make_bundle(const BundleSource& source);

// Whether the event belongs to something that a policy or people decide.
bool is_of_governance(const EventHeader& event);
// Whether a stream with these events, a line each, has such an event.
bool is_governed(std::string_view lines);

// Where the bundle of a run is, as a run shows it: {sha256, location, stored_at}; null when none is stored.
Json stored_bundle_object(const std::optional<BundleRow>& row);

// What the signature in signature.json is over.
std::string signed_manifest(std::string_view manifest);

}  // namespace pawl
