// Whoever signs for this installation: covers streams by checkpoints and makes bundles, through an engine that runs.
//
// All of it blocks until what was made is durable, so it is for threads that may: never the engine's, the writer's, or
// one that serves sockets. Any number of them may ask at once.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/clock.h"
#include "engine/runtime.h"
#include "evidence/bundle.h"
#include "evidence/proof_cache.h"

namespace pawl {

// What was asked for cannot be made; the reason is for people.
class EvidenceFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// This server does not have the key that signs here: its file is gone or damaged, or belongs to another installation.
class SigningKeyLost : public EvidenceFailure {
 public:
  using EvidenceFailure::EvidenceFailure;
};

class Notary {
 public:
  struct Parts {
    Runtime& runtime;
    Store& store;
    const Clock& clock;
    std::filesystem::path key_file;  // made when it is not there at the first look
  };
  explicit Notary(Parts parts) : parts_(std::move(parts)) {}

  // All that is signed throws SigningKeyLost when the file was there and is gone, or has not the key that it must have.
  SigningKeys keys();

  // Checkpoints that cover these runs as they are now; those that are not there are left out, and those that a recent
  // checkpoint covers as they are get no other. `with_tenant`: and the tenant's own stream. A tenant without any
  // checkpoint gets one of all its streams. Gives the rows, all of them covered.
  std::vector<RunRow> cover(TenantId tenant, std::vector<RunId> runs, bool with_tenant);
  // Of all streams that no checkpoint covers as they are now; false when there were none.
  bool cover_all(TenantId tenant);

  // The run as it is now. A run that no checkpoint covers yet is covered first.
  Bundle bundle(TenantId tenant, RunId run);

  // In one commit, where nobody else writes at the same moment.
  void record(TenantId tenant, const std::vector<BundleStored>& stored);
  // A new key signs from now on, for every tenant: it is journaled for each before this returns.
  SigningKeys rotate();

 private:
  TenantHead tenant_head(TenantId tenant);
  void flush(TenantId tenant, std::optional<RunId> run);
  // Nothing when somebody else was faster: look again.
  bool try_record(TenantId tenant, RecordEvidence evidence);
  void append(TenantId tenant, const std::vector<std::string>& entries, bool with_tenant);
  void introduce_keys(TenantId tenant, const SigningKeys& keys);
  std::vector<std::string> uncovered(TenantId tenant);
  std::vector<RunRow> rows_of(TenantId tenant, std::vector<RunId> runs);
  // Reads checkpoints that this server has not made, or made before it was started: up to `last`, from `since` on.
  void learn_checkpoints(TenantId tenant, std::uint64_t last, Instant since);
  std::optional<EntryProof> find_proof(TenantId tenant, const LogEntry& entry, Instant last_event);

  Parts parts_;
  std::atomic<bool> had_key_file_ = false;
  std::mutex appending_;  // one checkpoint after the other: two at once would only refuse each other
  std::mutex proofs_mutex_;
  ProofCache proofs_;
};

}  // namespace pawl
