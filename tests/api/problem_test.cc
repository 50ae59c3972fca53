#include "api/problem.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>

#include "api/openapi_parts.h"
#include "api/problem_codes.h"

namespace pawl::api {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

const fs::path source(PAWL_SOURCE_DIR);

// Every code that an answer can have, with its status.
std::map<std::string, int, std::less<>> known_codes() {
  std::map<std::string, int, std::less<>> out;
  for (const ProblemCode& row : problem_codes)
    EXPECT_TRUE(out.emplace(row.code, row.status).second) << row.code << " stands there twice";
  for (std::size_t i = 0; i < enum_count<RefusalCode>; ++i) {
    Problem problem = problem_of({static_cast<RefusalCode>(i), "why"});
    auto [place, added] = out.emplace(problem.code, problem.status);
    EXPECT_TRUE(added || place->second == problem.status) << problem.code << " has two statuses";
  }
  return out;
}

std::string problem_reference() {
  std::string out = "| code | status | what it means | what to do |\n|---|---|---|---|\n";
  for (const ProblemCode& row : problem_codes)
    out += "| `" + std::string(row.code) + "` | " + std::to_string(row.status) + " | " + std::string(row.meaning) +
           " | " + std::string(row.what_to_do) + " |\n";
  return out;
}

TEST(Problems, are_in_the_documentation) {
  fs::path path = source / "docs/errors.md";
  std::string page = read(path);
  const std::string opening = "<!-- pawl problems -->\n";
  auto begin = page.find(opening);
  ASSERT_NE(begin, page.npos);
  begin += opening.size();
  auto end = page.find("<!-- end -->", begin);
  ASSERT_NE(end, page.npos);
  if (std::getenv("PAWL_UPDATE_DOCS")) {
    page.replace(begin, end - begin, problem_reference());
    std::ofstream(path, std::ios::binary) << page;
  } else {
    EXPECT_EQ(page.substr(begin, end - begin), problem_reference())
        << "PAWL_UPDATE_DOCS=1 test_api --gtest_filter='Problems.*' writes it anew";
  }
}

// One code, one status: in everything that src/api and src/http say.
TEST(Problems, of_the_sources_have_a_known_code_and_its_status) {
  auto known = known_codes();
  const std::regex said(R"re(\.status = (\d+),\s*\.code = "([A-Z_]+)")re");
  int found = 0;
  for (const char* module : {"src/api", "src/http"})
    for (const auto& entry : fs::directory_iterator(source / module)) {
      std::string text = read(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), said), none; at != none; ++at, ++found) {
        auto place = known.find((*at)[2].str());
        ASSERT_NE(place, known.end()) << entry.path() << ": " << (*at)[2] << " is not in problem_codes.h";
        EXPECT_EQ(place->second, std::stoi((*at)[1])) << entry.path() << ": " << (*at)[2];
      }
    }
  EXPECT_GT(found, 20);
}

TEST(Problems, of_the_openapi_document_have_a_known_code_and_its_status) {
  auto known = known_codes();
  for (const auto& doc : openapi::problem_docs()) {
    ASSERT_TRUE(known.contains(doc.problem.code)) << doc.problem.code;
    EXPECT_EQ(known.at(doc.problem.code), doc.problem.status) << doc.problem.code;
  }
}

}  // namespace
}  // namespace pawl::api
