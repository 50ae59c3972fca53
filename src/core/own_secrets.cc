#include "core/own_secrets.h"

namespace pawl {

std::vector<OwnSecret> OwnSecret::all_of(const Tenant& tenant) {
  std::vector<OwnSecret> out;
  if (tenant.slack) {
    out.push_back({Use::slack_token, tenant.slack->token});
    out.push_back({Use::slack_signing_secret, tenant.slack->signing_secret});
  }
  for (const auto& [name, webhook] : tenant.webhooks) out.push_back({Use::webhook_secret, webhook.secret, name});
  return out;
}

std::optional<OwnSecret> OwnSecret::find(const Tenant& tenant, Use use, std::string_view webhook) {
  for (OwnSecret& each : all_of(tenant))
    if (each.use_ == use && each.webhook_ == webhook) return std::move(each);
  return std::nullopt;
}

std::string OwnSecret::description() const {
  switch (use_) {
    case Use::slack_token:
      return "it is the token of the Slack bot";
    case Use::slack_signing_secret:
      return "Slack signs its requests with it";
    case Use::webhook_secret:
      return "deliveries of the webhook " + webhook_ + " are signed with it";
  }
  return {};
}

}  // namespace pawl
