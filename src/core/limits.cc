#include "core/limits.h"

#include <algorithm>

namespace pawl {

Limits::Limits(const Caps& caps) {
  (*this)[Limit::max_concurrency] = caps.max_concurrency;
  (*this)[Limit::max_runs_per_min] = caps.max_runs_per_min;
  (*this)[Limit::max_writes_per_run] = caps.max_writes_per_run;
}

std::optional<std::int64_t> lower_of(const std::optional<std::int64_t>& a, const std::optional<std::int64_t>& b) {
  if (a && b) return std::min(*a, *b);
  return a ? a : b;
}

std::optional<std::string> reason_problem(std::string_view reason) {
  if (reason.empty()) return "a reason is needed: it is what people are told";
  if (reason.size() > reason_chars_max)
    return "a reason has at most " + std::to_string(reason_chars_max) + " characters";
  return std::nullopt;
}

namespace {

// Of all, of the connector, or of one whose name it begins with: `github` is `github.labels` too.
const Restriction* find(const Freezes& freezes, FreezeScope scope, std::string_view connector) {
  for (auto it = freezes.lower_bound({scope, std::string()}); it != freezes.end() && it->first.first == scope; ++it) {
    const std::string& frozen = it->first.second;
    if (frozen.empty() || connector == frozen || connector.starts_with(frozen + ".")) return &it->second;
  }
  return nullptr;
}

// Tenants do not learn which key of the installation it was.
std::string text_of(const Restriction& freeze, FreezeScope scope) {
  std::string by = scope == FreezeScope::tenant ? freeze.by.text : "the installation";
  return "effects are frozen by " + by + " since " + print_time(freeze.since) + ": " + freeze.reason;
}

}  // namespace

std::optional<std::string> frozen_reason(const Freezes& own, const Freezes& everywhere, std::string_view connector) {
  if (own.empty() && everywhere.empty()) return std::nullopt;
  for (FreezeScope scope : {FreezeScope::everywhere, FreezeScope::installation, FreezeScope::tenant})
    if (const auto* found = find(scope == FreezeScope::everywhere ? everywhere : own, scope, connector))
      return text_of(*found, scope);
  return std::nullopt;
}

}  // namespace pawl
