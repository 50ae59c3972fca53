// A store that checks the stream of a run when the run is loaded, and shows nothing of runs that are damaged: for those
// who serve it, such a run does not exist until the store is repaired. The idempotency keys of its effects stay held.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "store/forwarding_store.h"

namespace pawl {

class GuardedStore final : public ForwardingStore {
 public:
  // `on_damage` is called once for each run, from any thread; it must not call this store.
  using OnDamage = std::function<void(RunId run, const std::string& what)>;
  GuardedStore(std::unique_ptr<Store> store, OnDamage on_damage)
      : ForwardingStore(*store), owned_(std::move(store)), on_damage_(std::move(on_damage)) {}

  // From now on the run is not shown.
  void hide(RunId run, const std::string& what);

  // A receipt that the store has lost: its key is held all the same.
  void hold_key(const ReceiptRow& receipt);

  std::vector<RunRow> load_from(TenantId tenant, RunId run, std::size_t limit) override;
  std::vector<RunRow> list_runs(TenantId tenant, const RunFilter& filter) override;
  std::optional<ApprovalRow> find_approval(TenantId tenant, ApprovalId approval) override;
  std::optional<ReceiptRow> find_receipt(TenantId tenant, ReceiptId receipt) override;
  std::vector<ReceiptRow> find_effects(TenantId tenant, const std::string& key) override;
  Stream history(StreamKey key) override;

 private:
  bool is_hidden(RunId run) const;

  std::unique_ptr<Store> owned_;
  OnDamage on_damage_;
  mutable std::mutex mutex_;
  std::set<RunId> hidden_;
  std::map<std::pair<TenantId, std::string>, ReceiptRow> held_;
};

}  // namespace pawl
