#include "tools/secret_use.h"

#include <fmt/format.h>

#include <map>

#include "core/expression.h"
#include "tools/outcome.h"

namespace pawl {
namespace {

// Asks for each secret once; what the last one lacked is kept.
class SecretScope final : public ExpressionScope {
 public:
  SecretScope(const FindSecret& find, const SecretRequest& request, Scrubber& scrubber)
      : find_(find), request_(request), scrubber_(scrubber) {}

  const Json* root(const Expression& expression) const override {
    if (expression.root != Expression::Root::secret) return nullptr;
    const auto known = values_.find(expression.secret);
    if (known != values_.end()) return &known->second;
    if (!find_) {
      missing_ = NoSecret{"there are no secrets here"};
      return nullptr;
    }
    SecretRequest request = request_;
    request.secret = expression.secret;
    auto value = find_(request);
    if (!value) {
      missing_ = std::move(value.error());
      return nullptr;
    }
    scrubber_.add(expression.secret, *value);
    return &values_.emplace(expression.secret, Json(*value)).first->second;
  }
  const std::optional<NoSecret>& missing() const { return missing_; }

 private:
  const FindSecret& find_;
  const SecretRequest& request_;
  Scrubber& scrubber_;
  mutable std::map<std::string, Json> values_;
  mutable std::optional<NoSecret> missing_;
};

}  // namespace

std::expected<JsonText, Failed> SecretUse::fill(const JsonText& shown) {
  if (!is_template(shown)) return shown;
  const auto value = parse_json(shown);
  if (!value) return std::unexpected(invalid_arguments(fmt::format("the input is not JSON: {}", value.error())));
  const SecretScope scope(find_, request_, scrubber_);
  auto filled = render(*value, scope);
  if (filled) return canonical(*filled);
  if (!scope.missing()) return std::unexpected(failure("EXPRESSION_FAILED", filled.error()));
  auto failed =
      failure(scope.missing()->is_forbidden ? "SECRET_NOT_ALLOWED" : "SECRET_UNAVAILABLE", scope.missing()->message);
  failed.retryable = scope.missing()->may_pass;
  failed.is_harmless = true;
  return std::unexpected(std::move(failed));
}

void SecretUse::scrub(Completed& completed) const {
  completed.output = scrubber_.json(completed.output);
  completed.response = scrubber_.json(completed.response);
  if (!completed.undo) return;
  Action undo = *completed.undo;
  undo.target = scrubber_.text(undo.target);
  undo.idempotency_key = scrubber_.text(undo.idempotency_key);
  completed.undo = std::make_shared<const Action>(std::move(undo));
}

void SecretUse::scrub(Failed& failed) const {
  failed.message = scrubber_.text(failed.message);
  failed.error_code = scrubber_.text(failed.error_code);
}

void SecretUse::scrub(ToolResult& result) const {
  if (scrubber_.empty()) return;
  if (auto* completed = std::get_if<Completed>(&result)) scrub(*completed);
  if (auto* later = std::get_if<CompleteAt>(&result)) scrub(later->outcome);
  if (auto* failed = std::get_if<Failed>(&result)) scrub(*failed);
  if (auto* asked = std::get_if<Asked>(&result)) asked->question = scrubber_.json(asked->question);
}

void SecretUse::scrub(Plan& plan) const {
  if (scrubber_.empty()) return;
  plan.action.target = scrubber_.text(plan.action.target);
  plan.action.idempotency_key = scrubber_.text(plan.action.idempotency_key);
  plan.before = scrubber_.json(plan.before);
}

}  // namespace pawl
