// The policies and freezes in force, for whoever asks, on whatever thread. The engine puts them here.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

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
    copy->freezes = tenant.freezes;
    std::lock_guard lock(mutex_);
    if (tenant.name == installation_tenant) everywhere_ = copy;
    tenants_[tenant.id] = std::move(copy);
  }
  // Null when there is none.
  std::shared_ptr<const Tenant> find(TenantId tenant) const {
    std::lock_guard lock(mutex_);
    auto found = tenants_.find(tenant);
    return found == tenants_.end() ? nullptr : found->second;
  }
  // Why effects of this connector are denied to the tenant at this moment; nothing when they are not.
  std::optional<std::string> frozen(TenantId tenant, std::string_view connector) const {
    std::lock_guard lock(mutex_);
    auto found = tenants_.find(tenant);
    if (found == tenants_.end()) return std::nullopt;
    static const Freezes none;
    return frozen_reason(found->second->freezes, everywhere_ ? everywhere_->freezes : none, connector);
  }

 private:
  mutable std::mutex mutex_;
  std::map<TenantId, std::shared_ptr<const Tenant>> tenants_;
  std::shared_ptr<const Tenant> everywhere_;  // the installation's, whose freezes may be everybody's
};

}  // namespace pawl
