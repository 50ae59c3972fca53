#include "core/diagnostic.h"

#include "core/characters.h"

namespace pawl {

bool operator==(const Diagnostic& a, const Diagnostic& b) {
  bool same_cause = (!a.cause && !b.cause) || (a.cause && b.cause && *a.cause == *b.cause);
  return same_cause && a.error_code == b.error_code && a.category == b.category && a.message == b.message &&
         a.likely_cause == b.likely_cause && a.suggested_fix == b.suggested_fix && a.retryable == b.retryable &&
         a.severity == b.severity && a.step == b.step && a.attempt == b.attempt && a.occurred_at == b.occurred_at;
}

std::string diagnostic_message(std::string text) {
  text.resize(first_characters(text, diagnostic_message_chars_max).size());
  return text;
}

Diagnostic diagnose(std::string_view code, std::string message, Instant at) {
  Diagnostic out;
  out.error_code = first_characters(code, diagnostic_code_chars_max);
  out.message = diagnostic_message(std::move(message));
  out.occurred_at = at;
  if (const ErrorCode* known = find_error_code(code)) {
    out.category = known->category;
    out.retryable = known->retryable;
    out.severity = known->severity;
    out.likely_cause = known->likely_cause;
    out.suggested_fix = known->suggested_fix;
  } else {
    out.likely_cause = "the worker reported a code of its own";
    out.suggested_fix = "read the message; ask the worker's owner";
  }
  return out;
}

}  // namespace pawl
