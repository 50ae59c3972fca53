// What every store must do, as tests over a harness: each store instantiates StoreSuite with its own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"

namespace pawl::test {

// One place where a store keeps its data, empty at first.
class StoreHarness {
 public:
  virtual ~StoreHarness() = default;
  // Opens it for writing; what was opened before is closed first.
  virtual std::unique_ptr<Store> open() = 0;
};

struct StoreKind {
  std::string name;
  std::function<std::unique_ptr<StoreHarness>()> make;

  friend void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }
};

class StoreSuite : public testing::TestWithParam<StoreKind> {
 protected:
  StoreSuite() : harness_(GetParam().make()), store_(harness_->open()) {}

  void reopen() {
    store_.reset();
    store_ = harness_->open();
  }
  // The next frame, committed.
  void commit(Frame frame);
  void commit_run(RunFold fold);

  std::unique_ptr<StoreHarness> harness_;
  std::unique_ptr<Store> store_;
  Position position_ = 0;
};

// Of stores whose tables lag behind the journal: what lies in frames only, until it is folded.
class FrameSuite : public StoreSuite {};

// Builders. Numbers stand for moments: a higher one was made later.
TenantId tenant_id(std::uint64_t number);
inline const TenantId acme = tenant_id(1);
inline const TenantId zeta = tenant_id(2);
RunId run_id(std::uint64_t number);
Instant run_time(std::uint64_t number);  // when run_id(number) was made
Hash head_after(StreamKey key, std::uint64_t seq);
std::string lines_of(StreamKey key, std::uint64_t first_seq, std::uint64_t last_seq);
History history_of(StreamKey key, std::uint64_t first_seq, std::uint64_t last_seq);

// A run never folded before, with events 1 to `seq`.
RunFold new_run(TenantId tenant, std::uint64_t number, std::uint64_t seq = 3);
// The same run, `events` later.
RunFold later(const RunFold& before, std::uint64_t events, RunStatus status);
ReadyStep ready_step(const RunFold& fold, StepIndex step);
ApprovalRow approval(const RunFold& fold, std::uint64_t ordinal, ApprovalStatus status = ApprovalStatus::requested);
Tenant tenant_named(TenantId id, const std::string& name, std::uint64_t seq);
// With its events from `first_seq` on.
TenantFold tenant_fold(const Tenant& tenant, std::uint64_t first_seq);
std::string parts_of(const std::vector<StreamKey>& keys);

// What the store says when it fails; empty when it does not.
template <class Act>
std::string failure_of(Act act) {
  try {
    act();
  } catch (const StoreFailure& failure) {
    return failure.what();
  }
  return {};
}

// Everything a store says, as text; equal texts mean equal stores.
std::string describe(const RunRow& row);
std::string describe(Store& store);

std::vector<RunId> ids_of(const std::vector<RunRow>& rows);
std::vector<RunId> ids_of(const std::vector<DueRun>& runs);

}  // namespace pawl::test
