// The file of the signing key, when several want to make or replace it at once.
#include "evidence/signing_keys.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace pawl::tests {
namespace {

namespace fs = std::filesystem;

class SigningKeysTest : public testing::Test {
 protected:
  SigningKeysTest() {
    std::string name = (fs::temp_directory_path() / "pawl-keys-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ / "signing-key.json";
  }
  ~SigningKeysTest() override { fs::remove_all(folder_); }

  template <class Work>
  void at_once(int threads, Work work) {
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) all.emplace_back([=] { work(i); });
    for (std::thread& each : all) each.join();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
  fs::path path_;
};

TEST_F(SigningKeysTest, many_that_want_the_first_key_get_the_same_one) {
  std::vector<std::string> ids(16);
  at_once(16, [&](int i) { ids[static_cast<std::size_t>(i)] = open_signing_keys(path_, Instant{1}).current().id(); });
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 1u);
  EXPECT_EQ(files(), 1u) << "no draft is left";
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(SigningKeysTest, no_rotation_is_lost_when_many_rotate_at_once) {
  open_signing_keys(path_, Instant{1});
  constexpr int rotations = 12;
  std::vector<std::string> made(rotations);
  at_once(rotations,
          [&](int i) { made[static_cast<std::size_t>(i)] = rotate_signing_key(path_, Instant{2 + i}).current().id(); });
  const SigningKeys keys = read_signing_keys(path_);  // checks that each follows the one before it
  std::set<std::string> known;
  for (const KnownKey& key : keys.known) known.insert(key.id());
  EXPECT_EQ(keys.known.size(), rotations + 1u);
  for (const std::string& id : made) EXPECT_TRUE(known.contains(id)) << id;
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace pawl::tests
