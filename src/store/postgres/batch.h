// One commit, as the database takes it: what several frames say of the same run is one write, rows are in the order in
// which they are locked, and everything that belongs to a run names its place.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "store/postgres/wire.h"
#include "store/store.h"

namespace pawl::postgres {

// The types of pawl.commit's arrays, as they are numbered in one database.
struct RecordTypes {
  struct Type {
    Oid record = 0, array = 0;
  };
  Type run, ready, request, approval, receipt, start, tenant, workflow, meter;
};

class Batch {
 public:
  explicit Batch(std::span<const Frame> frames);

  bool empty() const { return runs_.empty() && tenants_.empty() && workflows_.empty() && starts_.empty(); }
  // What pawl.commit takes behind p_number.
  void append_to(Values& values, const RecordTypes& types, Duration hold) const;
  // What its answer means.
  std::vector<Lost> lost(std::span<const int> codes) const;

 private:
  // Folds of one stream that follow each other.
  struct RunChain {
    std::vector<const RunFold*> folds;
    int place = 0;
    int starts = 0;
    int claims() const {
      int sum = 0;
      for (const RunFold* fold : folds) sum += fold->claims;
      return sum;
    }
  };
  struct TenantChain {
    std::vector<const TenantFold*> folds;
    bool broken = false;
    int place = 0;
  };
  struct Meter {
    TenantId tenant;
    WorkflowName workflow;
    friend auto operator<=>(const Meter&, const Meter&) = default;
  };
  using RunChains = std::map<StreamKey, RunChain>;

  void gather(const Frame& frame);
  void gather(const RunFold& fold);
  void gather(const TenantFold& fold);
  void place_all();
  void add_meters();
  void write(const RunChain& chain);
  void write_beside(const RunChain& chain);
  void write(const TenantChain& chain);
  void write(const WorkflowRow& row);
  void write_requests();
  void write_receipts();
  void write_starts();

  RunChains chains_;
  std::map<TenantId, TenantChain> tenant_chains_;
  std::map<std::tuple<TenantId, WorkflowName, int>, const WorkflowRow*> workflow_rows_;
  std::vector<const StartRow*> start_rows_;
  std::map<Meter, int> meters_;

  std::vector<const RunChain*> placed_;  // by place
  std::vector<TenantId> placed_tenants_;
  int existing_ = 0;
  std::vector<Lost> lost_already_;
  Records runs_, ready_, requests_, approvals_, receipts_, starts_, tenants_, workflows_, meter_keys_;
};

}  // namespace pawl::postgres
