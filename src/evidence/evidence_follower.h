// What keeps the evidence up while a server runs: follows the journal, covers what moved by checkpoints, and puts a
// bundle of every run that has ended into the artifact store.
//
// A checkpoint of all that moved is made at most once an interval, unless so much has moved that it is full. Runs that
// have ended are covered within a second, and their bundles are stored then: those of governed runs first, then those
// of the runs that ended last, so that a backlog does not hold up what happens now. While the server is busy, the
// bundles of other than governed runs get a small share of the time and wait for quieter moments; they are made from
// the stored history, so nothing is lost by that. The place in the journal moves on only when checkpoints and bundles
// are durable, so a crash loses none. What is seen again is looked up in the tables first: a run that is covered and
// stored as it is costs one look. When frames are gone that it had not seen, it looks through the tables for ended runs
// without a bundle.
#pragma once

#include <chrono>
#include <functional>
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
  using Clock = std::chrono::steady_clock;

  struct Options {
    BundlesWanted bundles = BundlesWanted::all;
    Duration interval = std::chrono::minutes(1);
    // Runs that end within this time are covered by one checkpoint.
    Duration gather = std::chrono::seconds(1);
    // With more events a second than this, the server is busy.
    double busy_events_per_second = 500;
    // While it is, other than governed bundles are made for so long, once a `gather`.
    Duration busy_slice = std::chrono::milliseconds(20);
    // Told of how many ended runs have no bundle yet.
    std::function<void(std::size_t runs)> on_backlog = {};
  };
  EvidenceFollower(Notary& notary, Store& store, Artifacts& artifacts, Options options)
      : notary_(notary), store_(store), artifacts_(artifacts), options_(std::move(options)) {}

  std::string name() const override { return "evidence"; }
  bool wants(const Tenant&) const override { return true; }
  void see(const JournalEvent& event) override;
  void settle() override;
  bool settle_some() override;
  Clock::time_point settles_at() const override;
  void took_over() override;
  void let_go() override { took_over(); }
  void missed(Position first, Position last) override;

 private:
  // A run that is covered: its bundle can be made.
  struct DueBundle {
    Instant ended_at;  // or when something was last found out about one of its effects
    RunId run;
    std::uint64_t seq = 0;

    friend auto operator<=>(const DueBundle&, const DueBundle&) = default;
  };
  using DueBundles = std::set<DueBundle, std::greater<>>;  // those that ended last come first
  struct Pending {
    std::set<RunId> runs;     // that moved
    std::set<RunId> ended;    // of which a bundle may be due, once a checkpoint covers them
    std::set<RunId> touched;  // whose receipts changed: a bundle is due if they had ended before
    DueBundles due_first;     // governed
    DueBundles due;           // others
    bool has_moved = false;   // the tenant's own stream, and not by a checkpoint

    bool is_covered() const { return runs.empty() && ended.empty() && touched.empty() && !has_moved; }
    bool has_due() const { return !due_first.empty() || !due.empty(); }
  };

  void cover(TenantId tenant, Pending& pending, bool with_all);
  void look_for_missed(TenantId tenant);
  // Until `until`, of all tenants in turn; true when none is left.
  bool store_bundles(DueBundles Pending::*which, Clock::time_point until);
  void store_some(TenantId tenant, DueBundles& due, Clock::time_point until);
  bool is_stored(TenantId tenant, RunId run, std::uint64_t seq);
  bool wants_bundle(const RunRow& row) const;
  bool is_busy();
  void tell_backlog() const;

  Notary& notary_;
  Store& store_;
  Artifacts& artifacts_;
  Options options_;
  std::map<TenantId, Pending> pending_;
  std::set<RunId> governed_;  // of those that have not ended, or not been covered since
  TenantId last_served_;      // whose bundles were made last: the next slice begins with another tenant
  bool missed_ = false;
  Clock::time_point covers_all_at_{}, gathers_until_ = Clock::time_point::max(), goes_on_at_{};
  std::uint64_t events_ = 0;  // since measured_at_
  Clock::time_point measured_at_{};
  bool is_busy_ = false;
};

}  // namespace pawl
