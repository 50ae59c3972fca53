// What keeps the evidence up while a server runs: follows the journal, covers what moved by checkpoints, and puts a
// bundle of every run that has ended into the artifact store.
//
// A checkpoint is made at most once an interval, unless so much has moved that it is full. Its place in the journal
// moves on only when checkpoints and bundles are durable, so a crash loses none; one that is seen again is stored
// again, with the same bytes, and recorded once.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "core/names.h"
#include "engine/follower.h"
#include "evidence/artifacts.h"
#include "evidence/notary.h"

namespace pawl {

// Of which runs.
enum class BundlesWanted { governed, all, none };
template <>
inline constexpr std::array enum_names<BundlesWanted>{std::string_view("governed"), std::string_view("all"),
                                                      std::string_view("none")};

class EvidenceFollower final : public Follower {
 public:
  struct Options {
    BundlesWanted bundles = BundlesWanted::governed;
    Duration interval = std::chrono::minutes(1);
  };
  EvidenceFollower(Notary& notary, Store& store, Artifacts& artifacts, Options options)
      : notary_(notary), store_(store), artifacts_(artifacts), options_(options) {}

  std::string name() const override { return "evidence"; }
  bool wants(const Tenant&) const override { return true; }
  void see(const JournalEvent& event) override;
  void settle() override;
  std::chrono::steady_clock::time_point settles_at() const override;
  void took_over() override;
  void missed(Position first, Position last) override;

 private:
  struct Pending {
    std::set<RunId> runs;    // that moved
    std::set<RunId> ended;   // of which a bundle may be due
    bool has_moved = false;  // the tenant's own stream, and not by a checkpoint
  };
  void store_bundles(TenantId tenant, Pending& pending);
  bool is_stored(TenantId tenant, const BundleStored& stored);

  Notary& notary_;
  Store& store_;
  Artifacts& artifacts_;
  Options options_;
  std::map<TenantId, Pending> pending_;
  bool missed_ = false;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace pawl
