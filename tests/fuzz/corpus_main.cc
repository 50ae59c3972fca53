// Feeds every file of the corpus to its target, one test a file: what was once found stays found, in every build.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz.h"

namespace fs = std::filesystem;
using namespace pawl::fuzz;

namespace {

class OneFile : public testing::Test {
 public:
  OneFile(Target target, fs::path file) : target_(target), file_(std::move(file)) {}

  void TestBody() override {
    std::ifstream in(file_, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    ASSERT_TRUE(in) << file_;
    target_(bytes);
  }

 private:
  Target target_;
  fs::path file_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
    return 2;
  }
  for (const auto& [name, target] : targets()) {
    const fs::path folder = fs::path(argv[1]) / name;
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      ++files;
      testing::RegisterTest(name.c_str(), entry.path().filename().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [target, file = entry.path()]() -> OneFile* { return new OneFile(target, file); });
    }
    if (files == 0) {
      std::fprintf(stderr, "%s has no files\n", folder.c_str());
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}
