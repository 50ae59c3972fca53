// The documentation holds pictures and tables that are printed from the code. Here they are printed again and compared.
// After a change of a table: PAWL_UPDATE_DOCS=1 test_core --gtest_filter='Docs.*' writes the new texts into the pages.
#include "core/diagram.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#include "core/approval_lifecycle.h"
#include "core/decide.h"
#include "core/diagnostic.h"
#include "core/receipt_lifecycle.h"
#include "core/reference.h"
#include "core/run_lifecycle.h"
#include "core/step_lifecycle.h"
#include "core/task_lifecycle.h"

namespace pawl::tests {
namespace {

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

TEST(Diagram, mermaid_shows_the_start_every_row_and_every_end) {
  EXPECT_EQ(diagram(LifecycleName::approval, DiagramFormat::mermaid),
            "stateDiagram-v2\n"
            "  [*] --> requested\n"
            "  requested --> approved: approve\n"
            "  requested --> rejected: reject\n"
            "  requested --> expired: expire\n"
            "  requested --> canceled: cancel\n"
            "  approved --> [*]\n"
            "  rejected --> [*]\n"
            "  expired --> [*]\n"
            "  canceled --> [*]\n");
}

TEST(Diagram, dot_shows_the_start_every_row_and_every_end) {
  EXPECT_EQ(diagram(LifecycleName::approval, DiagramFormat::dot),
            "digraph approval {\n"
            "  rankdir=LR;\n"
            "  node [shape=box, style=rounded];\n"
            "  entry [shape=point];\n"
            "  approved [peripheries=2];\n"
            "  rejected [peripheries=2];\n"
            "  expired [peripheries=2];\n"
            "  canceled [peripheries=2];\n"
            "  entry -> requested;\n"
            "  requested -> approved [label=\"approve\"];\n"
            "  requested -> rejected [label=\"reject\"];\n"
            "  requested -> expired [label=\"expire\"];\n"
            "  requested -> canceled [label=\"cancel\"];\n"
            "}\n");
}

TEST(Diagram, every_lifecycle_is_shown_whole) {
  const std::map<LifecycleName, std::size_t> rows{{LifecycleName::run, run_table.size()},
                                                  {LifecycleName::step, step_table.size()},
                                                  {LifecycleName::approval, approval_table.size()},
                                                  {LifecycleName::receipt, receipt_table.size()},
                                                  {LifecycleName::task, task_table.size()}};
  ASSERT_EQ(rows.size(), enum_count<LifecycleName>);
  for (auto [name, expected] : rows) {
    EXPECT_EQ(count(diagram(name, DiagramFormat::mermaid), ": "), expected) << to_string(name);
    EXPECT_EQ(count(diagram(name, DiagramFormat::dot), "[label="), expected) << to_string(name);
  }
}

// --- the pages ---

struct Block {
  std::string page;
  std::string marker;  // <!-- pawl MARKER --> text <!-- end -->
  std::string text;
};

std::string mermaid_block(LifecycleName name) {
  return "```mermaid\n" + diagram(name, DiagramFormat::mermaid) + "```\n";
}

std::vector<Block> all_blocks() {
  std::vector<Block> out;
  for (std::size_t i = 0; i < enum_count<LifecycleName>; ++i) {
    auto name = static_cast<LifecycleName>(i);
    out.push_back({"docs/lifecycles.md", "graph " + std::string(to_string(name)), mermaid_block(name)});
  }
  out.push_back({"docs/lifecycles.md", "words run", run_projection_reference()});
  out.push_back({"docs/lifecycles.md", "words step", step_projection_reference()});
  for (std::size_t i = 0; i < enum_count<Provider>; ++i) {
    auto provider = static_cast<Provider>(i);
    if (provider != Provider::external)  // the same table as native's
      out.push_back(
          {"docs/providers.md", "provider " + std::string(to_string(provider)), provider_reference(provider)});
  }
  out.push_back({"docs/errors.md", "errors", error_reference()});
  out.push_back({"docs/errors.md", "refusals", refusal_reference()});
  return out;
}

std::filesystem::path path_of(const std::string& page) { return std::filesystem::path(PAWL_SOURCE_DIR) / page; }

std::string read_page(const std::string& page) {
  std::ifstream in(path_of(page), std::ios::binary);
  EXPECT_TRUE(in.good()) << "cannot read " << path_of(page);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Where the block's text lies in its page; nothing when the markers are missing.
struct Span {
  std::size_t begin, end;
};
std::optional<Span> find_block(const std::string& page, const std::string& marker) {
  std::string opening = "<!-- pawl " + marker + " -->\n";
  auto begin = page.find(opening);
  if (begin == page.npos) return std::nullopt;
  begin += opening.size();
  auto end = page.find("<!-- end -->", begin);
  if (end == page.npos) return std::nullopt;
  return Span{begin, end};
}

TEST(Docs, what_the_pages_print_is_what_the_tables_say) {
  bool update = std::getenv("PAWL_UPDATE_DOCS") != nullptr;
  for (const auto& block : all_blocks()) {
    SCOPED_TRACE(block.page + ", " + block.marker);
    std::string page = read_page(block.page);
    auto span = find_block(page, block.marker);
    ASSERT_TRUE(span) << "no block <!-- pawl " << block.marker << " --> ... <!-- end -->";
    if (update) {
      page.replace(span->begin, span->end - span->begin, block.text);
      std::ofstream(path_of(block.page), std::ios::binary) << page;
    } else {
      EXPECT_EQ(page.substr(span->begin, span->end - span->begin), block.text)
          << "PAWL_UPDATE_DOCS=1 test_core --gtest_filter='Docs.*' writes it anew";
    }
  }
}

TEST(Docs, every_state_and_trigger_is_explained) {
  std::string page = read_page("docs/lifecycles.md");
  auto expect_words = [&](std::string_view lifecycle, const auto& words) {
    auto section = page.find("## " + std::string(lifecycle));
    ASSERT_NE(section, page.npos) << lifecycle;
    auto text = page.substr(section, page.find("\n## ", section) - section);
    for (auto word : words)
      EXPECT_NE(text.find("- `" + std::string(word) + "`"), text.npos) << lifecycle << ": " << word;
  };
  expect_words("Run", enum_names<RunStatus>);
  expect_words("Run", enum_names<RunTrigger>);
  expect_words("Step", enum_names<StepStatus>);
  expect_words("Step", enum_names<StepTrigger>);
  expect_words("Approval", enum_names<ApprovalStatus>);
  expect_words("Approval", enum_names<ApprovalTrigger>);
  expect_words("Receipt", enum_names<ReceiptStatus>);
  expect_words("Receipt", enum_names<ReceiptTrigger>);
}

TEST(Docs, every_error_code_has_one_section) {
  std::string page = read_page("docs/errors.md");
  for (const auto& code : error_codes) EXPECT_EQ(count(page, "\n## " + std::string(code.code) + "\n"), 1u) << code.code;
  for (auto code : enum_names<RefusalCode>) EXPECT_EQ(count(page, "\n### " + std::string(code) + "\n"), 1u) << code;
}

}  // namespace
}  // namespace pawl::tests
