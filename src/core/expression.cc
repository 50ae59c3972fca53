#include "core/expression.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <optional>

namespace pawl {
namespace {

constexpr std::string_view opening = "${{";
constexpr std::string_view braces = "{{";
constexpr std::string_view closing = "}}";
constexpr std::array<std::string_view, 6> run_keys{"id", "workflow", "version", "workspace", "created_at", "attempt"};

// No value is deeper than this, so neither is a path that leads to one.
constexpr std::size_t path_segments_max = json_depth_max;
// One large value named many times must not fill the memory.
constexpr std::size_t rendered_bytes_max = 8 << 20;

constexpr bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// Dollars that stand directly before `{{`. One of two means a dollar; an odd one begins an expression.
struct Opening {
  std::size_t at = 0;  // of the first dollar
  std::size_t dollars = 0;

  bool begins_expression() const { return dollars % 2 == 1; }
  std::size_t literal_dollars() const { return dollars / 2; }
  std::size_t end() const { return at + dollars + braces.size(); }
};

std::optional<Opening> next_opening(std::string_view text, std::size_t from) {
  const std::size_t last_dollar = text.find(opening, from);
  if (last_dollar == std::string_view::npos) return std::nullopt;
  std::size_t first = last_dollar;
  while (first > from && text[first - 1] == '$') --first;
  return Opening{first, last_dollar - first + 1};
}

// Reads one expression from a place in a text, and stands behind it afterwards.
class PathReader {
 public:
  using Failure = std::unexpected<ExpressionError>;

  PathReader(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  std::size_t at() const { return at_; }

  std::expected<Expression, ExpressionError> read() {
    skip_space();
    Expression out;
    if (auto failure = read_root(out)) return *failure;
    while (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == '[')) {
      if (out.path.size() == path_segments_max)
        return fail(at_, "a path has at most " + std::to_string(path_segments_max) + " parts");
      if (out.root == Expression::Root::secret) return fail(at_, "a secret is a text: nothing can follow its name");
      const std::size_t segment_at = at_;
      if (auto failure = text_[at_] == '.' ? read_name(out) : read_bracket(out)) return *failure;
      if (out.root == Expression::Root::run && out.path.size() == 1 && !names_run_key(out.path[0]))
        return fail(segment_at + 1, "`run` has only id, workflow, version, workspace, created_at and attempt");
    }
    skip_space();
    return out;
  }

 private:
  static Failure fail(std::size_t at, std::string reason) { return Failure(ExpressionError{at, std::move(reason)}); }

  static bool names_run_key(const std::variant<std::string, std::size_t>& segment) {
    const auto* key = std::get_if<std::string>(&segment);
    return key && std::find(run_keys.begin(), run_keys.end(), *key) != run_keys.end();
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }

  std::string_view take_word() {
    const std::size_t from = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }

  std::optional<Failure> read_root(Expression& out) {
    const std::size_t from = at_;
    const std::string_view word = take_word();
    if (word == "input") {
      out.root = Expression::Root::input;
    } else if (word == "run") {
      out.root = Expression::Root::run;
    } else if (word == "steps") {
      out.root = Expression::Root::step_output;
      return read_step(out);
    } else if (word == "secrets") {
      out.root = Expression::Root::secret;
      return read_secret(out);
    } else if (word == "response") {
      out.root = Expression::Root::response;
    } else {
      return fail(from, "an expression starts with `input`, `steps.<id>.output`, `run` or `secrets.<NAME>`");
    }
    return std::nullopt;
  }

  std::optional<Failure> read_secret(Expression& out) {
    const std::size_t from = at_;
    if (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      out.secret = take_word();
    }
    if (is_secret_name(out.secret)) return std::nullopt;
    return fail(from, "after `secrets` comes a name of capitals, digits and _: secrets.API_TOKEN");
  }

  // A step's id may hold dots; it ends before the first part that is `output`.
  std::optional<Failure> read_step(Expression& out) {
    constexpr std::string_view wanted = "after `steps` comes a step's id and then `.output`: steps.fetch.output";
    std::string id;
    while (at_ < text_.size() && text_[at_] == '.') {
      const std::size_t from = ++at_;
      const std::string_view word = take_word();
      if (word.empty()) return fail(from, std::string(wanted));
      if (word == "output" && !id.empty()) {
        out.step = std::move(id);
        return std::nullopt;
      }
      if (!id.empty()) id += '.';
      id += word;
    }
    return fail(at_, std::string(wanted));
  }

  std::optional<Failure> read_name(Expression& out) {
    ++at_;
    const std::string_view word = take_word();
    if (word.empty()) return fail(at_, "a name must follow the dot; write other keys as [\"key\"]");
    out.path.emplace_back(std::string(word));
    return std::nullopt;
  }

  std::optional<Failure> read_bracket(Expression& out) {
    const std::size_t from = ++at_;
    if (at_ < text_.size() && text_[at_] == '"') {
      for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
        if (text_[at_] == '\\') ++at_;
      at_ = std::min(at_ + 1, text_.size());
      const auto key = parse_json(text_.substr(from, at_ - from));
      if (!key) return fail(from, "the key in [ ] is not a JSON string");
      out.path.emplace_back(std::string(key->get_string()));
    } else {
      std::size_t index = 0;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && at_ - from < 9; ++at_)
        index = index * 10 + static_cast<std::size_t>(text_[at_] - '0');
      if (at_ == from) return fail(from, "in [ ] stands a number, counted from 0, or a key in double quotes");
      out.path.emplace_back(index);
    }
    if (at_ >= text_.size() || text_[at_] != ']') return fail(at_, "`]` is missing");
    ++at_;
    return std::nullopt;
  }

  std::string_view text_;
  std::size_t at_;
};

// Hands out the pieces of a text in order; literals may come in several. Stops at the first expression that is wrong.
template <class OnLiteral, class OnExpression>
std::optional<ExpressionError> scan(std::string_view text, OnLiteral on_literal, OnExpression on_expression) {
  std::size_t at = 0;
  while (const auto found = next_opening(text, at)) {
    const std::string_view literal = text.substr(at, found->at + found->literal_dollars() - at);
    if (!literal.empty()) on_literal(literal);
    at = found->end();
    if (!found->begins_expression()) {
      on_literal(braces);
      continue;
    }
    const std::size_t open = at - opening.size();
    if (text.find(closing, open) == std::string_view::npos)
      return ExpressionError{open, "`${{` is not closed with `}}`; to mean the characters themselves, write `$${{`"};
    PathReader reader(text, at);
    auto expression = reader.read();
    if (!expression) return std::move(expression.error());
    if (!text.substr(reader.at()).starts_with(closing))
      return ExpressionError{reader.at(), "an expression is one path and nothing else, then `}}`"};
    on_expression(std::move(*expression), open);
    at = reader.at() + closing.size();
  }
  if (at < text.size()) on_literal(text.substr(at));
  return std::nullopt;
}

// The path as its author wrote it, up to and including its first `segments` parts.
std::string print_path(const Expression& expression, std::size_t segments) {
  if (expression.root == Expression::Root::secret) return "secrets." + expression.secret;
  std::string out = expression.root == Expression::Root::input      ? "input"
                    : expression.root == Expression::Root::response ? "response"
                                                                    : "run";
  if (expression.root == Expression::Root::step_output) out = "steps." + expression.step + ".output";
  for (std::size_t i = 0; i < segments; ++i) {
    const auto* key = std::get_if<std::string>(&expression.path[i]);
    if (!key) {
      out += '[' + std::to_string(std::get<std::size_t>(expression.path[i])) + ']';
    } else if (!key->empty() && std::all_of(key->begin(), key->end(), is_word)) {
      out += '.' + *key;
    } else {
      out += '[';
      append_json_string(out, *key);
      out += ']';
    }
  }
  return out;
}

const Json* step_into(const Json& value, const std::variant<std::string, std::size_t>& segment) {
  if (const auto* key = std::get_if<std::string>(&segment)) {
    const auto* object = value.if_object();
    return object ? object->if_contains(*key) : nullptr;
  }
  const auto* array = value.if_array();
  const std::size_t index = std::get<std::size_t>(segment);
  return array && index < array->size() ? &(*array)[index] : nullptr;
}

std::expected<const Json*, std::string> resolve(const Expression& expression, const ExpressionScope& scope) {
  const std::size_t whole = expression.path.size();
  auto nowhere = [&](std::size_t known, const std::string& why) {
    return std::unexpected("`${{ " + print_path(expression, whole) + " }}` leads to nothing: `" +
                           print_path(expression, known) + "` " + why);
  };
  const Json* value = scope.root(expression);
  if (!value) return nowhere(0, "does not exist in this run");
  for (std::size_t i = 0; i < whole; ++i) {
    const Json* next = step_into(*value, expression.path[i]);
    if (!next) {
      if (const auto* key = std::get_if<std::string>(&expression.path[i]))
        return nowhere(i, value->is_object() ? "has no `" + *key + "`" : "is not a map");
      return nowhere(
          i, value->is_array() ? "has only " + std::to_string(value->get_array().size()) + " items" : "is not a list");
    }
    value = next;
  }
  return value;
}

struct Weight {
  std::size_t bytes = 0;
  std::size_t depth = 0;
};

Weight weigh(const Json& value) {
  Weight out{8, 0};
  auto add = [&](const Json& child, std::size_t key_bytes) {
    const Weight weight = weigh(child);
    out.bytes += weight.bytes + key_bytes;
    out.depth = std::max(out.depth, weight.depth);
  };
  if (const auto* text = value.if_string()) out.bytes += text->size();
  if (const auto* array = value.if_array()) {
    for (const auto& item : *array) add(item, 0);
    ++out.depth;
  }
  if (const auto* object = value.if_object()) {
    for (const auto& member : *object) add(member.value(), member.key().size());
    ++out.depth;
  }
  return out;
}

class Renderer {
 public:
  using Text = std::expected<std::string, std::string>;
  using Value = std::expected<Json, std::string>;

  // Which expressions stay as they stand. Where secrets do, what comes out is a template.
  enum class Keeps { response, secrets, both };
  explicit Renderer(const ExpressionScope& scope, Keeps keeps = Keeps::response) : scope_(scope), keeps_(keeps) {}

  Value value(const Json& with, std::size_t depth) {
    if (const auto* text = with.if_string()) return string(*text, depth);
    if (const auto* array = with.if_array()) {
      boost::json::array out;
      out.reserve(array->size());
      for (const auto& item : *array) {
        auto rendered = value(item, depth + 1);
        if (!rendered) return rendered;
        out.push_back(std::move(*rendered));
      }
      return out;
    }
    if (const auto* object = with.if_object()) {
      boost::json::object out;
      out.reserve(object->size());
      for (const auto& member : *object) {
        auto rendered = value(member.value(), depth + 1);
        if (!rendered) return rendered;
        out.emplace(member.key(), std::move(*rendered));
      }
      return out;
    }
    return with;
  }

  Text text(const Template& pieces) {
    std::string before_secret, out;
    for (const auto& piece : pieces) {
      const std::size_t before = out.size();
      const auto* expression = std::get_if<Expression>(&piece);
      if (!expression) {
        out += std::get<std::string>(piece);
      } else if (keeps(*expression) && !makes_template()) {
        out += print_expression(*expression);
      } else if (keeps(*expression)) {
        // Dollars directly before it would be read together with its own.
        before_secret += template_of(out);
        before_secret.append(out.size() - (out.find_last_not_of('$') + 1), '$');
        before_secret += print_expression(*expression);
        out.clear();
        continue;
      } else {
        const auto found = resolve(*expression, scope_);
        if (!found) return std::unexpected(found.error());
        if (const auto* string = (*found)->if_string())
          out += std::string_view(*string);
        else
          out += canonical(**found);
      }
      if (!spend(out.size() - before)) return std::unexpected(too_large());
    }
    return makes_template() ? before_secret + template_of(out) : out;
  }

 private:
  bool makes_template() const { return keeps_ != Keeps::response; }
  bool keeps(const Expression& expression) const {
    if (expression.root == Expression::Root::secret) return makes_template();
    return expression.root == Expression::Root::response && keeps_ != Keeps::secrets;
  }

  Value string(std::string_view text_with, std::size_t depth) {
    if (!is_template(text_with)) return Json(text_with);
    const auto pieces = parse_template(text_with);
    if (!pieces) return std::unexpected(pieces.error().reason);
    if (pieces->size() > 1 || std::holds_alternative<std::string>(pieces->front())) {
      auto rendered = text(*pieces);
      if (!rendered) return std::unexpected(std::move(rendered.error()));
      return Json(*rendered);
    }
    const auto& expression = std::get<Expression>(pieces->front());
    if (keeps(expression)) return Json(print_expression(expression));
    const auto found = resolve(expression, scope_);
    if (!found) return std::unexpected(found.error());
    const Weight weight = weigh(**found);
    // What is rendered here is read as JSON elsewhere, with the same limit.
    if (depth + weight.depth > json_depth_max)
      return std::unexpected("`${{ " + print_path(expression, expression.path.size()) +
                             " }}` makes the input deeper than " + std::to_string(json_depth_max));
    if (!spend(weight.bytes)) return std::unexpected(too_large());
    return makes_template() ? template_of_value(**found) : **found;
  }

  bool spend(std::size_t bytes) {
    if (bytes > bytes_left_) return false;
    bytes_left_ -= bytes;
    return true;
  }
  static std::string too_large() {
    return "with its expressions replaced, the input is over " + std::to_string(rendered_bytes_max >> 20) + " MiB";
  }

  const ExpressionScope& scope_;
  const Keeps keeps_;
  std::size_t bytes_left_ = rendered_bytes_max;
};

// What a call answered, and nothing else.
class ResponseScope final : public ExpressionScope {
 public:
  explicit ResponseScope(const Json& response) : response_(response) {}
  const Json* root(const Expression& expression) const override {
    return expression.root == Expression::Root::response ? &response_ : nullptr;
  }

 private:
  const Json& response_;
};

template <class Wanted>
bool names_any(const Json& value, Wanted wanted) {
  const auto inside = [&](const Json& child) { return names_any(child, wanted); };
  if (const auto* text = value.if_string()) {
    const auto found = find_expressions(*text);
    return found && std::ranges::any_of(*found, wanted, [](const auto& placed) { return placed.expression.root; });
  }
  if (const auto* array = value.if_array()) return std::ranges::any_of(*array, inside);
  if (const auto* object = value.if_object())
    return std::ranges::any_of(*object, [&](const auto& member) { return inside(member.value()); });
  return false;
}

}  // namespace

bool is_template(std::string_view text) { return text.find(opening) != std::string_view::npos; }

bool has_expression(std::string_view text) {
  auto found = next_opening(text, 0);
  while (found && !found->begins_expression()) found = next_opening(text, found->end());
  return found.has_value();
}

std::expected<Expression, ExpressionError> parse_expression(std::string_view inside) {
  PathReader reader(inside, 0);
  auto out = reader.read();
  if (out && reader.at() != inside.size())
    return std::unexpected(ExpressionError{reader.at(), "an expression is one path and nothing else"});
  return out;
}

std::expected<Template, ExpressionError> parse_template(std::string_view text) {
  Template out;
  auto failure = scan(
      text,
      [&](std::string_view literal) {
        if (out.empty() || std::holds_alternative<Expression>(out.back())) out.emplace_back(std::string());
        std::get<std::string>(out.back()) += literal;
      },
      [&](Expression expression, std::size_t) { out.emplace_back(std::move(expression)); });
  if (failure) return std::unexpected(std::move(*failure));
  return out;
}

std::expected<std::vector<PlacedExpression>, ExpressionError> find_expressions(std::string_view text) {
  std::vector<PlacedExpression> out;
  auto failure = scan(
      text, [](std::string_view) {},
      [&](Expression expression, std::size_t offset) {
        out.push_back({std::move(expression), offset});
      });
  if (failure) return std::unexpected(std::move(*failure));
  return out;
}

std::string literal_text(std::string_view text) {
  std::string out;
  scan(
      text, [&](std::string_view literal) { out += literal; }, [](const Expression&, std::size_t) {});
  return out;
}

std::string template_of(std::string_view text) {
  if (!is_template(text)) return std::string(text);
  std::string out;
  std::size_t dollars = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with(braces)) out.append(dollars, '$');
    dollars = text[i] == '$' ? dollars + 1 : 0;
    out += text[i];
  }
  return out;
}

Json template_of_value(const Json& value) {
  if (const auto* text = value.if_string()) return Json(template_of(*text));
  if (const auto* array = value.if_array()) {
    boost::json::array out;
    for (const auto& item : *array) out.push_back(template_of_value(item));
    return out;
  }
  if (const auto* object = value.if_object()) {
    boost::json::object out;
    for (const auto& member : *object) out.emplace(member.key(), template_of_value(member.value()));
    return out;
  }
  return value;
}

JsonText template_of_json(JsonText text) {
  if (!is_template(text)) return text;
  const auto value = parse_json(text);
  return value ? canonical(template_of_value(*value)) : text;
}

bool is_secret_name(std::string_view name) {
  if (name.empty() || name.size() > secret_name_chars_max || name[0] < 'A' || name[0] > 'Z') return false;
  return std::ranges::all_of(name, [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
}

bool names_response(const Json& value) {
  return names_any(value, [](Expression::Root root) { return root == Expression::Root::response; });
}
bool keeps_expressions(const Json& value) {
  return names_any(value, [](Expression::Root root) {
    return root == Expression::Root::secret || root == Expression::Root::response;
  });
}

std::string print_expression(const Expression& expression) {
  return "${{ " + print_path(expression, expression.path.size()) + " }}";
}

std::expected<Json, std::string> render_around_secrets(const Json& with, const ExpressionScope& scope) {
  return Renderer(scope, Renderer::Keeps::both).value(with, 0);
}

std::expected<Json, std::string> render_response(const Json& with, const Json& response) {
  const ResponseScope scope(response);
  return Renderer(scope, Renderer::Keeps::secrets).value(with, 0);
}

std::expected<Json, std::string> find_in_response(const Expression& expression, const Json& response) {
  const ResponseScope scope(response);
  const auto found = resolve(expression, scope);
  if (!found) return std::unexpected(found.error());
  return **found;
}

std::expected<Json, std::string> render(const Json& with, const ExpressionScope& scope) {
  return Renderer(scope).value(with, 0);
}

std::expected<std::string, std::string> render_text(std::string_view text, const ExpressionScope& scope) {
  const auto pieces = parse_template(text);
  if (!pieces) return std::unexpected(pieces.error().reason);
  return Renderer(scope).text(*pieces);
}

}  // namespace pawl
