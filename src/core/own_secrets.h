// The secrets of a tenant that pawl itself uses: to sign, to check signatures, to post as the tenant's bot. No workflow
// can reference them: whoever knows the secret that Slack signs with can click as anybody.
//
// Code that needs such a secret has to get it from all_of(), so a new use cannot be left out of the list.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tenant.h"

namespace pawl {

class OwnSecret {
 public:
  enum class Use { slack_token, slack_signing_secret, webhook_secret };

  static std::vector<OwnSecret> all_of(const Tenant& tenant);
  // The one for this use; a webhook's by the webhook's name. Nothing when the tenant has not set it.
  static std::optional<OwnSecret> find(const Tenant& tenant, Use use, std::string_view webhook = {});

  const std::string& name() const { return name_; }
  // "Slack signs its requests with it"
  std::string description() const;

 private:
  OwnSecret(Use use, std::string name, std::string webhook = {})
      : use_(use), name_(std::move(name)), webhook_(std::move(webhook)) {}

  Use use_;
  std::string name_;
  std::string webhook_;
};

}  // namespace pawl
