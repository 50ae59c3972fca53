// The tenants as they are now, for whoever asks on whatever thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/tenant.h"

namespace pawl::api {

class Directory {
 public:
  void update(const Tenant& tenant) {
    auto copy = std::make_shared<const Tenant>(tenant);
    std::lock_guard lock(mutex_);
    tenants_[tenant.id] = std::move(copy);
  }
  // Null when there is none.
  std::shared_ptr<const Tenant> find(TenantId id) const {
    std::lock_guard lock(mutex_);
    auto found = tenants_.find(id);
    return found == tenants_.end() ? nullptr : found->second;
  }
  std::vector<std::shared_ptr<const Tenant>> all() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const Tenant>> out;
    for (const auto& [id, tenant] : tenants_) out.push_back(tenant);
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::map<TenantId, std::shared_ptr<const Tenant>> tenants_;
};

}  // namespace pawl::api
