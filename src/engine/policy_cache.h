// The policies in force, for whoever evaluates one, on whatever thread. The engine puts them here.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "core/tenant.h"

namespace pawl {

class PolicyCache {
 public:
  void put(const Tenant& tenant) {
    // What a policy can see of a tenant, and nothing of its keys.
    auto copy = std::make_shared<Tenant>();
    copy->id = tenant.id;
    copy->name = tenant.name;
    copy->policy = tenant.policy;
    std::lock_guard lock(mutex_);
    tenants_[tenant.id] = std::move(copy);
  }
  // Null when there is none.
  std::shared_ptr<const Tenant> find(TenantId tenant) const {
    std::lock_guard lock(mutex_);
    auto found = tenants_.find(tenant);
    return found == tenants_.end() ? nullptr : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<TenantId, std::shared_ptr<const Tenant>> tenants_;
};

}  // namespace pawl
