// What the parts of this module work with. Filled in once, before any worker or follower begins; all of it outlives
// them.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/own_secrets.h"
#include "core/tenant.h"
#include "engine/runtime.h"
#include "tools/http_transfer.h"

namespace pawl::notify {

enum class Delivery { delivered, retried, failed, skipped };

}  // namespace pawl::notify

template <>
inline constexpr std::array pawl::enum_names<pawl::notify::Delivery>{
    std::string_view("delivered"), std::string_view("retried"), std::string_view("failed"),
    std::string_view("skipped")};

namespace pawl::notify {

struct NotifyContext {
  // Null when there is none. From any thread.
  std::function<std::shared_ptr<const Tenant>(TenantId)> find_tenant;
  // The value of a tenant's secret that pawl itself uses; or why there is none. Blocks.
  std::function<std::expected<std::string, std::string>(const Tenant& tenant, const std::optional<OwnSecret>& secret)>
      find_secret;
  Runtime* runtime = nullptr;
  Store* store = nullptr;  // from any thread
  HttpRules rules;
  // Told of every attempt to send something: "webhook" or "slack", and the outcome.
  std::function<void(std::string_view channel, Delivery outcome)> count = [](std::string_view, Delivery) {};
  std::function<void(const std::string&)> report = [](const std::string&) {};
};

// Nobody reads more of what a receiver answers.
inline constexpr std::size_t answer_bytes_max = std::size_t{1} << 20;

// Runs that pawl makes for itself are in a workspace of their own: its turn comes, whatever else the tenant does.
inline const WorkspaceName internal_workspace{"pawl"};
inline const Actor engine_actor{"engine"};

}  // namespace pawl::notify
