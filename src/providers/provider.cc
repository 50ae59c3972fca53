#include "providers/provider.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>

#include "core/characters.h"

namespace pawl::providers {
namespace {

constexpr std::size_t word_bytes_max = 64;
constexpr std::size_t failure_bytes_max = 4000;

}  // namespace

std::string kept_text(std::string_view text, std::size_t bytes_max) {
  std::string out(text.substr(0, bytes_max + 4));  // a character has up to four
  while (auto at = find_invalid_utf8(out)) out[*at] = '?';
  return std::string(first_characters(out, bytes_max));
}

ObserveRun meaning_of(Provider provider, const Sighting& sighting, Instant now) {
  const ProviderState* state = find_provider_state(provider, sighting.word, sighting.sign);
  ObserveRun out{.state = kept_text(sighting.word, word_bytes_max),
                 .sub_state = state ? state->sub_state : SubState::running,
                 .is_partial = sighting.is_partial,
                 .retries = sighting.retries,
                 .next_retry_at = sighting.next_retry_at,
                 .last_failure = kept_text(sighting.last_failure, failure_bytes_max),
                 .output = sighting.output,
                 .ends = state ? state->ends : std::nullopt};
  const std::string_view name = to_string(provider);
  const std::string why = sighting.failure.empty() ? fmt::format("{} says {}", name, out.state)
                                                   : kept_text(sighting.failure, failure_bytes_max);
  auto diagnosed = [&](std::string_view code, std::string message) {
    return std::make_shared<const Diagnostic>(diagnose(code, std::move(message), now));
  };
  if (out.ends == RunTrigger::fail) {
    out.diagnostic = diagnosed("PROVIDER_RUN_FAILED", why);
    out.failed_by = approvals_named_in(why);
  }
  if (out.ends == RunTrigger::time_out)
    out.diagnostic = diagnosed("RUN_TIMEOUT", fmt::format("it timed out at {}: {}", name, why));
  // A canceled run has no diagnostic; what was said stands beside it.
  if (out.ends == RunTrigger::cancel) {
    out.reason = why;
    if (!sighting.failure.empty()) out.last_failure = why;
  }
  return out;
}

std::vector<ApprovalId> approvals_named_in(std::string_view failure) {
  static const std::size_t id_chars = ApprovalId{}.str().size();
  constexpr std::string_view prefix = ApprovalTag::prefix;
  std::vector<ApprovalId> out;
  for (auto at = failure.find(prefix); at != failure.npos; at = failure.find(prefix, at + 1))
    if (auto id = ApprovalId::parse(failure.substr(at, id_chars))) out.push_back(*id);
  return out;
}

std::string refusal_text(const Decided& decided) {
  std::string out = decided.gate + " was " + std::string(to_string(decided.status));
  if (!decided.by.empty()) out += " by " + decided.by;
  if (!decided.reason.empty()) out += ": " + decided.reason;
  return out + " (" + decided.approval.str() + ")";
}

JsonText decision_object(const Decided& decided) {
  return canonical(Json(boost::json::object{{"approval", decided.approval.str()},
                                            {"gate", decided.gate},
                                            {"decision", to_string(decided.status)},
                                            {"by", decided.by},
                                            {"reason", decided.reason}}));
}

}  // namespace pawl::providers
