// ${{ }} in texts.
#include "core/expression.h"

#include "core/characters.h"
#include "fuzz.h"

namespace pawl::fuzz {
namespace {

class Scope : public ExpressionScope {
 public:
  const Json* root(const Expression& expression) const override {
    switch (expression.root) {
      case Expression::Root::input:
        return &input_;
      case Expression::Root::secret:
      case Expression::Root::response:
        return nullptr;
      case Expression::Root::run:
        return &run_;
      case Expression::Root::step_output:
        return expression.step == "a" || expression.step == "a.b" ? &output_ : nullptr;
    }
    return nullptr;
  }

 private:
  static Json value(std::string_view text) { return parse_json(text).value(); }

  Json input_ = value(R"({"a":{"b":[1,-2.5,{"c d":"text","":null}]},"e":true,"list":[[],[[0]],"${{ input.e }}"]})");
  Json run_ = value(R"({"id":"run_1","workflow":"w","version":1,"workspace":"default","attempt":1})");
  Json output_ = value(R"(["out",{"é":"ü"},18446744073709551615])");
};

// The text that says `text`: dollars directly before braces count double.
std::string written_out(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t last = i;
    while (last < text.size() && text[last] == '$') ++last;
    if (last > i && text.substr(last).starts_with("{{")) out += '$';
    out += text[i];
  }
  return out;
}

void check_error(const ExpressionError& error, std::string_view text) {
  check(!error.reason.empty() && error.offset <= text.size(), "an error says why, and where in the text");
}

void check_pieces(const Template& pieces, const std::vector<PlacedExpression>& placed, std::string_view input) {
  std::string literals;
  std::size_t found = 0;
  bool after_literal = false;
  for (const auto& piece : pieces) {
    const auto* literal = std::get_if<std::string>(&piece);
    check(!literal || (!literal->empty() && !after_literal), "literals are whole");
    after_literal = literal != nullptr;
    if (literal) {
      literals += *literal;
      continue;
    }
    check(found < placed.size(), "both readers find the same expressions");
    const auto& [expression, offset] = placed[found++];
    check(expression == std::get<Expression>(piece), "both readers read the same expressions");
    check(input.substr(offset).starts_with("${{"), "an expression is where it is said to be");
  }
  check(found == placed.size(), "both readers find all expressions");
  check(has_expression(input) == (found > 0), "whether there is an expression is known without reading it");
  if (found == 0) check_equal(literal_text(input), literals, "a text without expressions says its literals");
  if (!is_template(input)) check_equal(literals, input, "a text that is no template says itself");
}

}  // namespace

FUZZ_TARGET(expression) {
  static const Scope scope;
  if (const auto alone = parse_expression(input); !alone) {
    check_error(alone.error(), input);
  } else {
    const auto pieces = parse_template("${{" + std::string(input) + "}}");
    check(pieces && pieces->size() == 1 && std::get<Expression>(pieces->front()) == *alone,
          "an expression means the same in its braces");
  }

  const auto said = parse_template(written_out(input));
  check(said.has_value(), "every text can be written");
  check(input.empty() ? said->empty() : said->size() == 1 && std::get<std::string>(said->front()) == input,
        "a text that is written out says itself");

  const auto pieces = parse_template(input);
  const auto placed = find_expressions(input);
  check(pieces.has_value() == placed.has_value(), "both readers take the same texts");
  const auto text = render_text(input, scope);
  if (!pieces) {
    check_error(pieces.error(), input);
    check(pieces.error().offset == placed.error().offset, "both readers stumble at the same place");
    check(!text && !text.error().empty(), "what cannot be read is not rendered");
    return;
  }
  check_pieces(*pieces, *placed, input);

  if (find_invalid_utf8(input)) return;
  const auto value = render(Json(input), scope);
  check(value.has_value() == text.has_value(), "a value is rendered where its text is");
  if (!text) return check(!text.error().empty() && !value.error().empty(), "what leads nowhere is named");
  const bool whole = pieces->size() == 1 && std::holds_alternative<Expression>(pieces->front());
  if (value->is_string())
    check_equal(std::string_view(value->get_string()), *text, "a string is rendered as its text");
  else
    check(whole, "only one whole expression keeps its type"), check_equal(canonical(*value), *text, "a value is JSON");
}

}  // namespace pawl::fuzz
