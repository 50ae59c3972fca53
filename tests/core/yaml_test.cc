#include "yaml/yaml.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "core/workflow_builder.h"

namespace pawl {
namespace {

using Kind = SourceNode::Kind;

// The tree on one line, with places: {k@1:1: "v"@1:4}. Quoted scalars have quotes, verbatim ones a v.
std::string print(const SourceNode& node) {
  auto place = [](Place p) { return '@' + std::to_string(p.line) + ':' + std::to_string(p.column); };
  std::string out;
  switch (node.kind) {
    case Kind::null:
      out = "null";
      break;
    case Kind::scalar:
      out = (node.quoted ? '"' + node.scalar + '"' : node.scalar) + (node.verbatim ? "=" : "");
      break;
    case Kind::list:
      for (const auto& item : node.items) out += (out.empty() ? "" : ", ") + print(item);
      out = '[' + out + ']';
      break;
    case Kind::map:
      for (const auto& entry : node.entries)
        out += (out.empty() ? "" : ", ") + entry.key + place(entry.place) + ": " + print(entry.value);
      out = '{' + out + '}';
      break;
  }
  return out + place(node.place);
}

std::string read(std::string_view text, YamlLimits limits = {}) {
  const auto node = read_yaml(text, limits);
  return node ? print(*node) : print_error("", node.error()).substr(1);
}

struct YamlRow {
  std::string text;
  std::string expected;
};

template <std::size_t N>
void expect_read(const YamlRow (&rows)[N]) {
  for (const auto& row : rows) EXPECT_EQ(read(row.text), row.expected) << row.text;
}

TEST(Yaml, gives_every_value_its_place) {
  const YamlRow rows[] = {
      {"a: b", "{a@1:1: b=@1:4}@1:1"},
      {"a:\n  - b\n  - [c, {d: e}]\n", "{a@1:1: [b=@2:5, [c=@3:6, {d@3:10: e=@3:13}@3:9]@3:5]@2:3}@1:1"},
      {"--- # start\na: b\n...\n", "{a@2:1: b=@2:4}@2:1"},
      {"\xEF\xBB\xBF"
       "a: b",
       "{a@1:1: b=@1:4}@1:1"},
      {"a: b\r\nc: d\r\n", "{a@1:1: b=@1:4, c@2:1: d=@2:4}@1:1"},
      {"x", "x=@1:1"},
  };
  expect_read(rows);
}

TEST(Yaml, counts_columns_in_characters) {
  const YamlRow rows[] = {
      {"größe: {ä: ö, \U0001F600: x}", "{größe@1:1: {ä@1:9: ö=@1:12, \U0001F600@1:15: x=@1:18}@1:8}@1:1"},
      {R"({"a": "\ud83d\uDE00", "b": 1})", "{a@1:2: \"\U0001F600\"@1:7, b@1:23: 1=@1:28}@1:1"},
  };
  expect_read(rows);
}

TEST(Yaml, tells_quoted_from_plain_and_verbatim_from_changed) {
  const YamlRow rows[] = {
      {"[5, \"5\", '5']", "[5=@1:2, \"5\"=@1:5, \"5\"=@1:10]@1:1"},
      {"[\"a\\tb\", 'it''s']", "[\"a\tb\"@1:2, \"it's\"@1:10]@1:1"},
      {"- |\n  x\n- >-\n  y\n", "[\"x\n\"@1:3, \"y\"@3:3]@1:1"},
      {"- a\n  b\n", "[a b@1:3]@1:1"},
  };
  expect_read(rows);
}

TEST(Yaml, puts_an_empty_value_at_its_key) {
  const YamlRow rows[] = {
      {"a:\nb: ~\nc: null\n", "{a@1:1: null@1:1, b@2:1: null@2:4, c@3:1: null@3:4}@1:1"},
      {"- x\n-\n- y\n", "[x=@1:3, null@2:1, y=@3:3]@1:1"},
      {"- x\n-", "[x=@1:3, null@2:1]@1:1"},
      {"{a: , b}", "{a@1:2: null@1:2, b@1:7: null@1:7}@1:1"},
  };
  expect_read(rows);
}

TEST(Yaml, reads_json) {
  const YamlRow rows[] = {
      {"{\n\t\"a\": [1, -2.5e3, true, null, \"x\\n\\u00e9\\/\"],\n\t\"b\": {}\n}",
       "{a@2:2: [1=@2:8, -2.5e3=@2:11, true=@2:19, null@2:25, \"x\n\u00e9/\"@2:31]@2:7, b@3:2: {}@3:7}@1:1"},
      {R"(["\\ud83d", "\ud83d\ude00"])", "[\"\\ud83d\"@1:2, \"\U0001F600\"@1:13]@1:1"},
  };
  expect_read(rows);
}

TEST(Yaml, replaces_aliases_by_what_they_name) {
  const YamlRow rows[] = {
      {"a: &x [1, 2]\nb: *x\n", "{a@1:1: [1=@1:8, 2=@1:11]@1:4, b@2:1: [1=@1:8, 2=@1:11]@1:4}@1:1"},
      {"- &x a\n- &x b\n- *x\n", "[a@1:3, b@2:3, b@2:3]@1:1"},
      {"&k a: 1\n*k : 2\n", "2:1: key `a` is already given in line 1"},
  };
  expect_read(rows);
}

TEST(Yaml, is_refused_with_a_place_and_what_to_do) {
  const YamlRow rows[] = {
      {"", "1:1: the document is empty"},
      {"# nothing\n", "1:1: the document is empty"},
      {"a: 1\n---\nb: 2\n", "2:1: only one document is read; remove this one and the `---` before it"},
      {"a: 1\nb: 2\na: 3\n", "3:1: key `a` is already given in line 1"},
      {"{\"a\": 1, \"\\u0061\": 2}", "1:10: key `a` is already given in line 1"},
      {"<<: {a: 1}", "1:1: merge keys (`<<`) are not read; write the keys out"},
      {"? [a]\n: b\n", "1:3: a key must be text, not a list or a map; or is a bracket not closed?"},
      {"~: b\n", "1:1: a key must be text, not empty; put it in quotes to mean the word"},
      {"a: !!str 5\n", "1:4: tags such as `tag:yaml.org,2002:str` are not read; remove it, and put text in quotes"},
      {"a: !secret [5]\n", "1:4: tags such as `!secret` are not read; remove it, and put text in quotes"},
      {"a: *nope\n", "1:4: no anchor with this name stands before this alias"},
      {"a: &x [*x]\n", "1:8: this alias stands inside the value that it names"},
      {"a:\n\tb: c\n", "2:1: a tab cannot indent YAML; use spaces"},
      {"a:\n  b: 1\n \tc: 2\n", "3:2: a tab cannot indent YAML; use spaces"},
      {"a: b: c\n", "1:5: a `:` cannot stand here; put text that holds `: ` in quotes"},
      {"a: [1, 2\nb: 3\n", "2:2: a `,` or `]` is missing before this"},
      {"a:\n  - b\n c: 3\n", "3:2: this line does not fit the map it stands in; check its indentation"},
      {"a: }", "1:4: this bracket closes nothing"},
      {"a: @b\n", "1:4: this character cannot begin a value; put the text in quotes"},
      {"a: \"b\nc: 1\n", "1:4: this quote is not closed; the text goes on to the end of the document"},
      {"a: 'it''s\nc: 1\n", "1:4: this quote is not closed; the text goes on to the end of the document"},
      {"a: \"\\q\"\n", "1:7: this is not YAML: unknown escape character: q"},
      {"a: \"\\é\"\n", "1:7: this is not YAML: unknown escape character"},
      {"a: \"\\N\"\n", "1:4: the escapes `\\N` and `\\_` are not read; write `\\u0085` and `\\u00a0`"},
      {"\"\\_\": b\n", "1:1: the escapes `\\N` and `\\_` are not read; write `\\u0085` and `\\u00a0`"},
      {std::string("a: \0b", 5), "1:4: control characters are not allowed; this one has code 0"},
      {"a: b\n\x04", "2:1: control characters are not allowed; this one has code 4"},
      {"a: 4\r", "1:5: a carriage return without a line feed; end lines with a line feed"},
      {"a: \xff\n", "1:4: this byte is not valid UTF-8"},
      {"ä: \xed\xa0\x80\n", "1:4: this byte is not valid UTF-8"},
      {"a: \xc0\x80", "1:4: this byte is not valid UTF-8"},
      {"a: \xf0\x9f\x98", "1:4: this byte is not valid UTF-8"},
  };
  expect_read(rows);
}

TEST(Yaml, keeps_its_limits) {
  EXPECT_EQ(read("[a, b]", {.bytes_max = 6}), "[a=@1:2, b=@1:5]@1:1");
  EXPECT_EQ(read("[a, b]", {.bytes_max = 5}), "1:1: the document is larger than 5 bytes");
  EXPECT_EQ(read("[[a]]", {.depth_max = 2}), "[[a=@1:3]@1:2]@1:1");
  EXPECT_EQ(read("[[[]]]", {.depth_max = 2}), "1:3: nested deeper than 2; make the document flatter");
  EXPECT_EQ(read("[a, b]", {.nodes_max = 3}), "[a=@1:2, b=@1:5]@1:1");
  EXPECT_EQ(read("[a, b]", {.nodes_max = 2}), "1:5: more than 2 values, counting what aliases name");
  EXPECT_EQ(read("[&x a, *x, *x]", {.aliases_max = 1}), "1:12: more than 1 aliases; write the values out");
}

TEST(Yaml, counts_what_aliases_name) {
  EXPECT_EQ(read("[&x [a], *x]", {.nodes_max = 4}), "1:10: more than 4 values, counting what aliases name");
  EXPECT_EQ(read("[&x [a], [*x]]", {.depth_max = 2}), "1:11: nested deeper than 2; make the document flatter");
  const std::string big(300, 'x');
  EXPECT_EQ(read("- &x " + big + "\n- *x\n- *x\n", {.bytes_max = 500}),
            "3:3: aliases make this document larger than 500 bytes");
}

// In processor time, which a busy machine does not make longer. The limit is generous, for sanitizers: the real times
// are below one second.
class HostileYaml : public testing::Test {
 protected:
  void SetUp() override { start_ = std::clock(); }
  void TearDown() override { EXPECT_LT((std::clock() - start_) / CLOCKS_PER_SEC, 60); }

 private:
  std::clock_t start_ = 0;
};

TEST_F(HostileYaml, cannot_multiply_itself_by_aliases) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 11; ++i) {
    const std::string name = "a" + std::to_string(i);
    const std::string alias = "*a" + std::to_string(i - 1);
    bomb += name + ": &" + name + " [" + alias;
    for (int j = 1; j < 9; ++j) bomb += ", " + alias;
    bomb += "]\n";
  }
  EXPECT_EQ(read(bomb), "6:10: more than 100000 values, counting what aliases name");

  std::string text_bomb = "- &a " + std::string(500'000, 'x') + "\n- &b [*a, *a]\n- &c [*b, *b]\n- [*c, *c, *c, *c]\n";
  EXPECT_FALSE(read_yaml(text_bomb));
  std::string anchors = "[a";
  for (int i = 0; i < 50'000; ++i) anchors += ", a";
  anchors += "]";
  for (int i = 0; i < 30; ++i) anchors = "&n" + std::to_string(i) + " [" + anchors + "]";
  EXPECT_FALSE(read_yaml(anchors));
}

TEST_F(HostileYaml, cannot_exhaust_the_stack_or_the_time) {
  constexpr std::size_t size = 1 << 17;
  for (const std::string unit :
       {"[",    "{",      "{a: ",  "[a: ", "- ",   "? ",       ": ",   ":",          "-",        "!",  "!a ",
        "&a ",  "*a ",    "%",     "%a\n", "#",    "\"",       "'",    "\"\"",       "\"a\":",   "a,", "[a,",
        "a:\n", "- a\n",  "---\n", "|\n",  ">",    "\n",       " ",    "\t",         "\r",       "\\", "ä",
        "x",    "a: b\n", "${{ ",  "}}",   "[*a,", "- &a a\n", "<<: ", "? a\n: b\n", "- |\n x\n"}) {
    SCOPED_TRACE(unit);
    std::string text;
    while (text.size() + unit.size() <= size) text += unit;
    read_yaml(text);
    read_yaml("[" + text.substr(1));
    read_yaml("a: |\n " + text.substr(8));
  }
  std::string stairs;
  for (std::size_t i = 0; stairs.size() < size - 2000; ++i) stairs += std::string(i, ' ') + "a:\n";
  EXPECT_EQ(read(stairs), "33:33: nested deeper than 32; make the document flatter");
}

TEST_F(HostileYaml, may_have_long_scalars) {
  const std::string long_text(100'000, 'x');
  for (const std::string& text :
       {"a: " + long_text, long_text + ": a", "a: \"" + long_text + "\"", "a: |\n  " + long_text + "\n",
        "workflow: " + long_text, "- &" + long_text + " a", "- *" + long_text, "- !" + long_text + " a"}) {
    if (const auto node = read_yaml(text)) {
      const ToolCatalog tools = test_tools();
      EXPECT_FALSE(read_workflow(*node, &tools));
    }
  }
}

// Damages a good document a little: flips, inserts, drops, repeats and moves bytes and pieces.
std::string mutate(std::string text, std::mt19937& random) {
  static const std::string_view pieces[] = {
      "[",    "]",        "{", "}",   ": ",   "- ", "&a ",   "*a",    "\"",     "'",      "|\n", "\n",
      "\t",   "  ",       "!", "?",   "#",    "%",  "---\n", "...",   "<<: ",   "${{",    "}}",  "~",
      "\xff", "\xe2\x82", "ä", "\\u", "\x01", ",",  "0x",    "1e999", "steps:", "needs: "};
  auto below = [&](std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random); };
  for (std::size_t edits = 1 + below(6); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(below(20) + 1, text.size() - at);
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.insert(at, pieces[below(std::size(pieces))]);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

TEST_F(HostileYaml, never_crashes_when_damaged) {
  const std::string documents[] = {
      "workflow: triage\ntimeout: 15m\nretry: {max_attempts: 4, base: 5s}\nsteps:\n  - id: fetch\n    tool: "
      "http.request\n"
      "    with: {method: GET, url: \"https://x/${{ input.id }}\"}\n  - id: gate\n    tool: approval\n    tier: high\n"
      "  - id: c\n    tool: noop\n    needs: [fetch, gate]\n    with:\n      note: |\n        a\n        b\n",
      "a: &a [1, 'x', \"y\\u00e4\"]\nb: *a\nc: {d: *a, e: >-\n    folded\n    text}\n? f\n: - g\n  - ~\n...\n",
      R"({"workflow": "w", "steps": [{"id": "a", "tool": "noop", "with": {"note": "\ud83d\ude00"}}]})",
  };
  const ToolCatalog tools = test_tools();
  for (unsigned seed = 0; seed < 6000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::string text = mutate(documents[seed % std::size(documents)], random);
    const auto node = read_yaml(text);
    if (!node) {
      EXPECT_GE(node.error().place.line, 1);
      EXPECT_GE(node.error().place.column, 1);
      EXPECT_FALSE(node.error().reason.empty());
      continue;
    }
    if (const auto workflow = read_workflow(*node, &tools)) {
      EXPECT_FALSE(workflow->steps.empty());
    } else {
      EXPECT_FALSE(workflow.error().empty());
      EXPECT_LE(workflow.error().size(), source_errors_max);
    }
  }
}

TEST_F(HostileYaml, may_be_any_bytes) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::string text(std::uniform_int_distribution<std::size_t>(0, 200)(random), ' ');
    // Half of them only from what YAML gives a meaning to: those get further.
    constexpr std::string_view structural = "[]{}:,-?&*!|>'\"%#~ \n\tab1\\<";
    for (char& c : text) {
      const auto draw = random();
      c = seed % 2 ? structural[draw % structural.size()] : static_cast<char>(draw);
    }
    read_yaml(text);
  }
}

}  // namespace
}  // namespace pawl
