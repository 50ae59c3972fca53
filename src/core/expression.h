// ${{ }}: a path into what a run knows.
//
//   expression := root segment*
//   root       := "input" | "steps" "." step-id "." "output" | "run" | "secrets" "." NAME | "response"
//   segment    := "." name | "[" integer "]" | "[" json-string "]"
//
// Directly before `{{`, two dollars mean one: `$${{` is the text `${{`, and `$$${{ input.price }}` is a dollar sign and
// then an expression. Anywhere else a dollar is a dollar, so every text can be written.
//
// `run` knows id, workflow, version, workspace, created_at and attempt. A text that is one whole expression keeps the
// value's type; inside other text a value is inserted as text (strings bare, everything else as JSON).
//
// `secrets` is another matter: no run knows a secret, so what is rendered for a step keeps such an expression as it
// stands. It is then still a template, in which text that only looks like an expression is escaped: whatever came out
// of an input or an output says itself and can never name a secret. Whoever carries the step out fills the values in.
//
// `response` is what a call answered. Only the undo of this call can name it (ToolKey::response), and the tool replaces
// it once the call was made. Until then such an expression stays as it stands, like one that names a secret.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/json.h"

namespace pawl {

struct Expression {
  enum class Root { input, step_output, run, secret, response } root = Root::input;
  std::string step;  // for step_output
  std::vector<std::variant<std::string, std::size_t>> path;
  std::string secret = {};  // its name

  friend bool operator==(const Expression&, const Expression&) = default;
};

struct ExpressionError {
  std::size_t offset = 0;  // bytes into the text
  std::string reason;
};

// The pieces of a text: literals, as they will read, and expressions, in order. No two literals stand side by side.
using Template = std::vector<std::variant<std::string, Expression>>;

struct PlacedExpression {
  Expression expression;
  std::size_t offset = 0;  // of its `${{`, in bytes into the text
};

// Whether rendering may change `text`: it holds an expression, or dollars that mean fewer.
bool is_template(std::string_view text);
// Whether an expression begins in it, sound or not.
bool has_expression(std::string_view text);
std::expected<Expression, ExpressionError> parse_expression(std::string_view inside);
std::expected<Template, ExpressionError> parse_template(std::string_view text);
std::expected<std::vector<PlacedExpression>, ExpressionError> find_expressions(std::string_view text);
// What a text without expressions says.
std::string literal_text(std::string_view text);
// The template that says `text` and nothing else; and the same for every text inside a value.
std::string template_of(std::string_view text);
Json template_of_value(const Json& value);
// Of JSON text, which is canonical before and after.
JsonText template_of_json(JsonText text);

// [A-Z][A-Z0-9_]*, at most secret_name_chars_max.
inline constexpr std::size_t secret_name_chars_max = 128;
bool is_secret_name(std::string_view name);
// Whether some text inside names the response; that or a secret, so that rendering leaves a template.
bool names_response(const Json& value);
bool keeps_expressions(const Json& value);
// "${{ secrets.NAME }}"
std::string print_expression(const Expression& expression);

// Where values come from while rendering; null = there is no such value.
class ExpressionScope {
 public:
  virtual ~ExpressionScope() = default;
  virtual const Json* root(const Expression& expression) const = 0;
};

// `with` with every expression replaced; or which expression led nowhere.
std::expected<Json, std::string> render(const Json& with, const ExpressionScope& scope);
std::expected<std::string, std::string> render_text(std::string_view text, const ExpressionScope& scope);
// The same with every expression replaced but those that name secrets or the response: a template, whose only
// expressions are these.
std::expected<Json, std::string> render_around_secrets(const Json& with, const ExpressionScope& scope);
// Of such a template: with those replaced that name the response.
std::expected<Json, std::string> render_response(const Json& with, const Json& response);
// The value in the response that the expression names, or why there is none.
std::expected<Json, std::string> find_in_response(const Expression& expression, const Json& response);

}  // namespace pawl
