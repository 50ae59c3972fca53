#include "process/private_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>

namespace pawl {
namespace {

namespace fs = std::filesystem;

// Where the umask takes nothing away.
class PrivateFolderTest : public testing::Test {
 protected:
  PrivateFolderTest() : umask_(::umask(0)) {
    std::string name = (fs::temp_directory_path() / "pawl-private-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    fs::permissions(folder_, fs::perms(0755));
  }
  ~PrivateFolderTest() override {
    fs::remove_all(folder_);
    ::umask(umask_);
  }

  static std::error_code make(const fs::path& folder) {
    std::error_code error;
    make_private_folders(folder, error);
    return error;
  }
  static fs::perms mode(const fs::path& folder) { return fs::status(folder).permissions(); }

  fs::path folder_;

 private:
  mode_t umask_;
};

TEST_F(PrivateFolderTest, and_those_above_it_that_are_missing_are_for_their_owner_alone) {
  EXPECT_FALSE(make(folder_ / "a/b/c"));
  for (const char* made : {"a", "a/b", "a/b/c"}) EXPECT_EQ(mode(folder_ / made), fs::perms::owner_all) << made;
  EXPECT_EQ(mode(folder_), fs::perms(0755)) << "it was there before";
}

TEST_F(PrivateFolderTest, that_is_there_keeps_its_mode) {
  fs::create_directory(folder_ / "open");
  fs::permissions(folder_ / "open", fs::perms(0750));
  EXPECT_FALSE(make(folder_ / "open"));
  EXPECT_EQ(mode(folder_ / "open"), fs::perms(0750));
}

TEST_F(PrivateFolderTest, may_be_named_with_a_slash_at_its_end) {
  EXPECT_FALSE(make(folder_ / "a/b/"));
  EXPECT_EQ(mode(folder_ / "a/b"), fs::perms::owner_all);
}

TEST_F(PrivateFolderTest, cannot_be_made_below_a_file) {
  std::ofstream(folder_ / "file") << "text";
  EXPECT_EQ(make(folder_ / "file/a").value(), ENOTDIR);
  EXPECT_EQ(make(folder_ / "file/a/b").value(), ENOTDIR);
}

}  // namespace
}  // namespace pawl
