#include "core/expression.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

namespace pawl {
namespace {

using Root = Expression::Root;

class Scope : public ExpressionScope {
 public:
  Json input = *parse_json(R"({"id": 7, "name": "Ada", "tags": ["a", "b"], "odd key": {"x-y": null}})");
  Json fetch = *parse_json(R"({"body": {"ok": true}})");
  Json run = *parse_json(R"({"id": "run_1", "attempt": 2})");

  const Json* root(const Expression& expression) const override {
    switch (expression.root) {
      case Root::input:
        return &input;
      case Root::secret:
      case Root::response:
        return nullptr;
      case Root::run:
        return &run;
      case Root::step_output:
        return expression.step == "fetch" ? &fetch : nullptr;
    }
    return nullptr;
  }
};

std::string rendered(std::string_view with) {
  const auto out = render(*parse_json(with), Scope());
  return out ? canonical(*out) : "refused: " + out.error();
}

TEST(Expression, is_a_path_into_input_steps_or_run) {
  EXPECT_EQ(parse_expression("input"), (Expression{Root::input, "", {}}));
  EXPECT_EQ(parse_expression("  input.a-b.c_1  "), (Expression{Root::input, "", {"a-b", "c_1"}}));
  EXPECT_EQ(parse_expression("input[0][\"odd \\\"}} key\"].x"),
            (Expression{Root::input, "", {std::size_t{0}, "odd \"}} key", "x"}}));
  EXPECT_EQ(parse_expression("steps.sign-off.output"), (Expression{Root::step_output, "sign-off", {}}));
  EXPECT_EQ(parse_expression("steps.fetch.output.output"), (Expression{Root::step_output, "fetch", {"output"}}));
  EXPECT_EQ(parse_expression("steps.v1.2.output[3]"), (Expression{Root::step_output, "v1.2", {std::size_t{3}}}));
  EXPECT_EQ(parse_expression("steps.output.output"), (Expression{Root::step_output, "output", {}}));
  EXPECT_EQ(parse_expression("run.created_at"), (Expression{Root::run, "", {"created_at"}}));
}

TEST(Expression, that_is_no_path_is_refused_where_it_goes_wrong) {
  struct Row {
    std::string_view text;
    std::size_t offset;
  };
  const Row rows[] = {{"", 0},
                      {"  ", 2},
                      {"inputs.a", 0},
                      {"env.HOME", 0},
                      {"input.", 6},
                      {"input..a", 6},
                      {"input[", 6},
                      {"input[-1]", 6},
                      {"input[x]", 6},
                      {"input[\"x]", 6},
                      {"input[0", 7},
                      {"input | x", 6},
                      {"input a", 6},
                      {"steps", 5},
                      {"steps.fetch", 11},
                      {"steps.fetch.outputs", 19},
                      {"steps[0]", 5},
                      {"run.secret", 4},
                      {"run[0]", 4},
                      {"input.a + 1", 8},
                      {"1 + 1", 0},
                      {"input.a.b()", 9},
                      {"input[1234567890]", 15}};
  for (const auto& row : rows) {
    const auto out = parse_expression(row.text);
    ASSERT_FALSE(out) << row.text;
    EXPECT_EQ(out.error().offset, row.offset) << row.text << ": " << out.error().reason;
  }
}

TEST(Expression, has_a_longest_path) {
  std::string text = "input";
  for (std::size_t i = 0; i < json_depth_max; ++i) text += ".a";
  EXPECT_TRUE(parse_expression(text));
  EXPECT_FALSE(parse_expression(text + ".a"));
}

TEST(Template, is_literals_and_expressions_in_order) {
  const auto pieces = parse_template("a ${{ input.x }}${{run.id}} b");
  ASSERT_TRUE(pieces);
  EXPECT_EQ(*pieces, (Template{"a ", Expression{Root::input, "", {"x"}}, Expression{Root::run, "", {"id"}}, " b"}));
  EXPECT_EQ(parse_template("")->size(), 0u);
  EXPECT_EQ(*parse_template("cost: $5 {{ x }}"), (Template{"cost: $5 {{ x }}"}));
}

TEST(Template, takes_two_dollars_before_braces_for_one) {
  const Expression x{Root::input, "", {"x"}};
  EXPECT_EQ(*parse_template("$${{ input.x }}"), (Template{"${{ input.x }}"}));
  EXPECT_EQ(*parse_template("a $${{ b"), (Template{"a ${{ b"}));
  EXPECT_EQ(*parse_template("$$${{ input.x }}"), (Template{"$", x}));
  EXPECT_EQ(*parse_template("$$$${{ input.x }}"), (Template{"$${{ input.x }}"}));
  EXPECT_EQ(*parse_template("${{ input.x }}$${{${{ input.x }}"), (Template{x, "${{", x}));
  EXPECT_EQ(*parse_template("$$5 $$ {{ $${ $"), (Template{"$$5 $$ {{ $${ $"}));
}

TEST(Template, places_expressions_in_the_text_as_it_was_written) {
  const auto found = find_expressions("$${{ $$${{ input.x }}${{ run.id }}");
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].offset, 7u);
  EXPECT_EQ((*found)[1].offset, 21u);
  EXPECT_EQ((*found)[1].expression, (Expression{Root::run, "", {"id"}}));
}

TEST(Template, with_doubled_dollars_has_no_expression) {
  EXPECT_FALSE(has_expression("$${{ x $$$${{ y {{ $ {{"));
  EXPECT_TRUE(has_expression("$${{ ${{ nonsense"));
  EXPECT_TRUE(has_expression("$$${{ x"));
  EXPECT_TRUE(is_template("$${{"));
  EXPECT_FALSE(is_template("$$ {{ $${"));
  EXPECT_EQ(literal_text("a $${{ x }}"), "a ${{ x }}");
}

TEST(Template, is_refused_where_an_expression_goes_wrong) {
  EXPECT_EQ(parse_template("ab ${{ input.x").error().offset, 3u);
  EXPECT_EQ(parse_template("ab ${{ input.x }").error().offset, 3u);
  EXPECT_EQ(parse_template("ab ${{ nope }}").error().offset, 7u);
  EXPECT_EQ(parse_template("${{ input.x | upper }}").error().offset, 12u);
  EXPECT_EQ(parse_template("${{ input }} ${{ }}").error().offset, 17u);
}

TEST(Render, keeps_the_type_of_one_whole_expression) {
  EXPECT_EQ(rendered(R"({"a": "${{ input.id }}", "b": ["${{ steps.fetch.output.body }}"]})"),
            R"({"a":7,"b":[{"ok":true}]})");
  EXPECT_EQ(rendered(R"("${{ input[\"odd key\"][\"x-y\"] }}")"), "null");
}

TEST(Render, inserts_strings_bare_and_everything_else_as_json) {
  EXPECT_EQ(rendered(R"("${{ input.name }}: ${{ input.id }} ${{ input.tags }} ${{ steps.fetch.output.body.ok }}")"),
            R"("Ada: 7 [\"a\",\"b\"] true")");
  EXPECT_EQ(rendered(R"(" ${{ input.id }}")"), R"(" 7")");
}

TEST(Render, can_say_the_characters_that_begin_an_expression) {
  EXPECT_EQ(rendered(R"(["$${{ input.id }}", "${{ input.id }} $${{ }} $$${{ input.id }}"])"),
            R"(["${{ input.id }}","7 ${{ }} $7"])");
}

// How an author writes `text` so that it is taken for what it is: dollars before braces are doubled.
std::string escaped(std::string_view text) {
  std::string out;
  std::size_t dollars = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("{{")) out.append(dollars, '$');
    dollars = text[i] == '$' ? dollars + 1 : 0;
    out += text[i];
  }
  return out;
}

RC_GTEST_PROP(Render, of_an_escaped_text_gives_the_text_back, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::element('$', '$', '{', '{', '}', ' ', 'x'));
  RC_ASSERT(!has_expression(escaped(text)));
  RC_ASSERT(render_text(escaped(text), Scope()).value() == text);
  RC_ASSERT(render(Json(escaped(text)), Scope()).value() == Json(text));
  RC_ASSERT(literal_text(escaped(text)) == text);
  // So it does on both sides of an expression, before which dollars are doubled as well.
  const std::size_t dollars = text.size() - (text.find_last_not_of('$') + 1);
  const std::string around = escaped(text) + std::string(dollars, '$') + "${{ run.id }}" + escaped(text);
  RC_ASSERT(render_text(around, Scope()).value() == text + "run_1" + text);
}

TEST(Expression, may_name_a_secret_and_nothing_inside_it) {
  EXPECT_EQ(parse_expression("secrets.API_TOKEN_2"), (Expression{Root::secret, "", {}, "API_TOKEN_2"}));
  for (const auto* text : {"secrets", "secrets.", "secrets.token", "secrets._A", "secrets.A-B", "secrets.A.b",
                           "secrets.A[0]", "secrets[\"A\"]"})
    EXPECT_FALSE(parse_expression(text)) << text;
  EXPECT_EQ(rendered(R"("${{ secrets.A }}")"),
            "refused: `${{ secrets.A }}` leads to nothing: `secrets.A` does not exist in this run");
}

// What a step is given, before its secrets are.
class SecretScope : public ExpressionScope {
 public:
  Json value = "s3cr3t";
  const Json* root(const Expression& expression) const override {
    return expression.root == Root::secret && expression.secret == "A" ? &value : nullptr;
  }
};

TEST(Render, around_secrets_keeps_them_and_escapes_what_only_looks_like_one) {
  Scope scope;
  scope.input = *parse_json(R"({"trap": "${{ secrets.A }}", "dollar": "a$", "deep": [{"k": "$${{ x"}]})");
  const auto with = *parse_json(R"({"key": "${{ secrets.A }}", "in": "Bearer ${{  secrets.A}}!",
      "trap": "${{ input.trap }}", "both": "${{ input.trap }}${{ secrets.A }}${{ input.trap }}",
      "dollar": "${{ input.dollar }}${{ secrets.A }}", "deep": "${{ input.deep }}", "said": "$${{ secrets.A }}"})");
  const auto shown = render_around_secrets(with, scope);
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->at("key").as_string(), "${{ secrets.A }}");
  EXPECT_EQ(shown->at("trap").as_string(), "$${{ secrets.A }}");
  const auto filled = render(*shown, SecretScope());
  ASSERT_TRUE(filled) << filled.error();
  EXPECT_EQ(canonical(*filled),
            R"({"both":"${{ secrets.A }}s3cr3t${{ secrets.A }}","deep":[{"k":"$${{ x"}],"dollar":"a$s3cr3t",)"
            R"("in":"Bearer s3cr3t!","key":"s3cr3t","said":"${{ secrets.A }}","trap":"${{ secrets.A }}"})");
}

RC_GTEST_PROP(Render, around_secrets_can_not_be_talked_into_naming_one, ()) {
  const auto piece = rc::gen::element<std::string>("$", "{{", "}}", " secrets.A ", "{", "x", "${{ secrets.A }}");
  const auto pieces = *rc::gen::container<std::vector<std::string>>(piece);
  std::string text;
  for (const auto& each : pieces) text += each;
  Scope scope;
  scope.input = Json(text);
  const auto shown = render_around_secrets(Json("${{ input }}${{ secrets.A }}${{ input }}"), scope);
  RC_ASSERT(render(*shown, SecretScope()).value() == Json(text + "s3cr3t" + text));
  RC_ASSERT(render(*render_around_secrets(Json("${{ input }}"), scope), SecretScope()).value() == Json(text));
  RC_ASSERT(!keeps_expressions(*render_around_secrets(Json("${{ input }}"), scope)));
  RC_ASSERT(render(Json(template_of(text)), SecretScope()).value() == Json(text));
}

TEST(Render, keeps_the_response_until_there_is_one) {
  Scope scope;
  scope.input = Json("${{ response.id }}");
  const auto with = *parse_json(R"({"id": "${{ response.body.id }}", "in": "a ${{response.body.name}} ${{ input }} $",
      "secret": "${{ secrets.A }} ${{ response.body.name }}"})");
  const auto shown = render_around_secrets(with, scope);
  ASSERT_TRUE(shown) << shown.error();
  EXPECT_TRUE(names_response(*shown) && keeps_expressions(*shown));
  const auto response = *parse_json(R"({"body": {"id": 7, "name": "${{ secrets.A }}"}})");
  const auto filled = render_response(*shown, response);
  ASSERT_TRUE(filled) << filled.error();
  EXPECT_FALSE(names_response(*filled));
  const auto sent = render(*filled, SecretScope());
  ASSERT_TRUE(sent) << sent.error();
  EXPECT_EQ(canonical(*sent), R"({"id":7,"in":"a ${{ secrets.A }} ${{ response.id }} $",)"
                              R"("secret":"s3cr3t ${{ secrets.A }}"})");
  EXPECT_FALSE(render_response(*shown, *parse_json(R"({"body": {"id": 7}})")));
  // What is given to a tool before the call holds such expressions as text.
  EXPECT_EQ(render(*shown, SecretScope())->at("id").as_string(), "${{ response.body.id }}");
}

TEST(Render, leaves_everything_else_as_it_is) {
  const std::string with = R"({"a":[1,2.5,null,true,"x"],"b":{"c":"{{ }}"}})";
  EXPECT_EQ(rendered(with), with);
}

TEST(Render, says_which_expression_leads_nowhere_and_where_it_ends) {
  EXPECT_EQ(rendered(R"("${{ input.nope.x }}")"),
            "refused: `${{ input.nope.x }}` leads to nothing: `input` has no `nope`");
  EXPECT_EQ(rendered(R"("${{ input.name.x }}")"),
            "refused: `${{ input.name.x }}` leads to nothing: `input.name` is not a map");
  EXPECT_EQ(rendered(R"("x${{ input.tags[2] }}")"),
            "refused: `${{ input.tags[2] }}` leads to nothing: `input.tags` has only 2 items");
  EXPECT_EQ(rendered(R"("${{ input.id[0] }}")"),
            "refused: `${{ input.id[0] }}` leads to nothing: `input.id` is not a list");
  EXPECT_EQ(rendered(R"("${{ steps.later.output }}")"),
            "refused: `${{ steps.later.output }}` leads to nothing: `steps.later.output` does not exist in this run");
}

TEST(Render, makes_nothing_that_is_too_deep_to_be_read_again) {
  Scope scope;
  std::string deep = "1";
  for (std::size_t i = 0; i < json_depth_max; ++i) deep = '[' + deep + ']';
  scope.input = *parse_json(deep);
  EXPECT_TRUE(render("${{ input }}", scope));
  EXPECT_FALSE(render(boost::json::array{"${{ input }}"}, scope));
}

TEST(Render, stops_before_one_value_named_many_times_fills_the_memory) {
  Scope scope;
  scope.input = std::string(1 << 20, 'x');
  boost::json::array with;
  for (int i = 0; i < 7; ++i) with.push_back("${{ input }}");
  EXPECT_TRUE(render(with, scope));
  for (int i = 0; i < 10'000; ++i) with.push_back("${{ input }}");
  EXPECT_FALSE(render(with, scope));
}

TEST(Render, of_text_gives_text) {
  EXPECT_EQ(render_text("${{ run.id }}:${{ input.id }}", Scope()), "run_1:7");
  EXPECT_EQ(render_text("${{ input.id }}", Scope()), "7");
  EXPECT_EQ(render_text("", Scope()), "");
  EXPECT_FALSE(render_text("${{ input.nope }}", Scope()));
}

}  // namespace
}  // namespace pawl
