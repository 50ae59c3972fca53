// ${{ }}: a path into what a run knows.
//
//   expression := root segment*
//   root       := "input" | "steps" "." step-id "." "output" | "run"
//   segment    := "." name | "[" integer "]" | "[" json-string "]"
//
// `run` knows id, workflow, version, workspace, created_at and attempt. A text that is one whole expression keeps the
// value's type; inside other text a value is inserted as text (strings bare, everything else as JSON).
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/json.h"

namespace pawl {

struct Expression {
  enum class Root { input, step_output, run } root = Root::input;
  std::string step;  // for step_output
  std::vector<std::variant<std::string, std::size_t>> path;

  friend bool operator==(const Expression&, const Expression&) = default;
};

struct ExpressionError {
  std::size_t offset = 0;  // bytes into the text
  std::string reason;
};

// The pieces of a text: literals and expressions, in order.
using Template = std::vector<std::variant<std::string, Expression>>;

bool has_expression(std::string_view text);
std::expected<Expression, ExpressionError> parse_expression(std::string_view inside);
std::expected<Template, ExpressionError> parse_template(std::string_view text);

// Where values come from while rendering; null = there is no such value.
class ExpressionScope {
 public:
  virtual ~ExpressionScope() = default;
  virtual const Json* root(const Expression& expression) const = 0;
};

// `with` with every expression replaced; or which expression led nowhere.
std::expected<Json, std::string> render(const Json& with, const ExpressionScope& scope);
std::expected<std::string, std::string> render_text(std::string_view text, const ExpressionScope& scope);

}  // namespace pawl
