#include "secrets/secrets.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "support/waiting.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

class SecretsTest : public testing::Test {
 protected:
  SecretsTest() {
    std::string name = (fs::temp_directory_path() / "pawl-secrets-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~SecretsTest() override { fs::remove_all(folder_); }

  void put(const std::string& tenant, const std::string& name, const std::string& text) {
    fs::create_directories(folder_ / tenant);
    std::ofstream(folder_ / tenant / name, std::ios::binary) << text;
  }
  std::string program(const std::string& script) {
    const auto path = folder_ / "program";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    ::chmod(path.c_str(), 0700);
    return path.string();
  }
  static std::string said(std::expected<std::string, std::string> value) {
    return value ? *value : "no: " + value.error();
  }

  fs::path folder_;
};

TEST_F(SecretsTest, come_from_a_folder_without_the_line_end) {
  put("default", "TOKEN", "abc\n");
  put("default", "LINES", "a\nb\r\n");
  put("acme", "TOKEN", "other");
  Secrets secrets({.folder = folder_});
  EXPECT_EQ(said(secrets.find("default", "TOKEN")), "abc");
  EXPECT_EQ(said(secrets.find("default", "LINES")), "a\nb");
  EXPECT_EQ(said(secrets.find("acme", "TOKEN")), "other");
}

TEST_F(SecretsTest, that_are_nowhere_are_missed_with_every_source_that_was_tried) {
  Secrets secrets({.command = program("exit 3"), .folder = folder_});
  const auto missing = secrets.look("acme", "TOKEN");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "there is no secret TOKEN of tenant acme: the program exited with 3; " +
                                         folder_.string() +
                                         "/acme/TOKEN has none; the environment has no "
                                         "PAWL_SECRET_ACME__TOKEN");
  EXPECT_TRUE(missing.error().may_pass);
}

TEST_F(SecretsTest, that_cannot_be_used_are_refused_without_their_value) {
  put("default", "EMPTY", "\n");
  put("default", "BYTES", "canary\xff");
  put("default", "NUL", std::string("canary\0x", 8));
  put("default", "LONG", std::string(secret_bytes_max + 1, 'c'));
  fs::create_directories(folder_ / "default" / "FOLDER");
  Secrets secrets({.folder = folder_});
  for (const auto* name : {"EMPTY", "BYTES", "NUL", "LONG", "FOLDER"}) {
    const auto answer = secrets.find("default", name);
    ASSERT_FALSE(answer) << name;
    EXPECT_EQ(answer.error().find("canary"), std::string::npos);
  }
  put("default", "LONGEST", std::string(secret_bytes_max, 'c'));
  EXPECT_TRUE(secrets.find("default", "LONGEST"));
}

TEST_F(SecretsTest, are_asked_of_a_program_first_and_kept_for_a_while) {
  put("default", "TOKEN", "of the folder");
  const auto count = folder_ / "count";
  Secrets secrets(
      {.command = program("echo >> " + count.string() + "; [ $2 = GONE ] && exit 1; echo $1/$2"), .folder = folder_});
  EXPECT_EQ(said(secrets.find("default", "TOKEN")), "default/TOKEN");
  EXPECT_EQ(said(secrets.find("default", "TOKEN")), "default/TOKEN");
  EXPECT_EQ(fs::file_size(count), 1u);
  EXPECT_EQ(said(secrets.find("acme", "TOKEN")), "acme/TOKEN");
  EXPECT_EQ(fs::file_size(count), 2u);
  put("default", "GONE", "of the folder");
  EXPECT_EQ(said(secrets.find("default", "GONE")), "of the folder");
}

TEST_F(SecretsTest, of_a_program_that_hangs_or_floods_are_not_waited_for) {
  Secrets hanging({.command = program("sleep 60"), .command_time_max = std::chrono::milliseconds(200)});
  EXPECT_NE(said(hanging.find("default", "TOKEN")).find("did not end within 200 ms"), std::string::npos);
  Secrets flooding({.command = program("cat /dev/zero"), .command_time_max = hang_limit});
  EXPECT_NE(said(flooding.find("default", "TOKEN")).find("printed more than"), std::string::npos);
  Secrets absent({.command = (folder_ / "nothing").string()});
  EXPECT_NE(said(absent.find("default", "TOKEN")).find("could not be started"), std::string::npos);
}

TEST_F(SecretsTest, are_never_looked_for_outside_of_their_tenant) {
  put("default", "TOKEN", "abc");
  put("acme", "TOKEN", "other");
  Secrets secrets({.folder = folder_ / "acme"});
  for (const auto* tenant : {"..", "../default", ".", "", "a/b", "-x"})
    EXPECT_FALSE(secrets.find(tenant, "TOKEN")) << tenant;
  for (const auto* name : {"", "token", "../TOKEN", "A-B", "_A", "1A", "A/B"})
    EXPECT_FALSE(Secrets({.folder = folder_}).find("acme", name)) << name;
}

TEST(SecretVariable, of_no_two_tenants_is_the_same) {
  const char* tenants[] = {"default", "acme", "ac-me", "a", "b", "a-b", "acme-eu", "Acme", "a_b", "a.b", "a--b", "a-"};
  const char* names[] = {"TOKEN",   "ACME__TOKEN", "B__C",      "C",     "ME__TOKEN",
                         "A__B__C", "A_",          "EU__TOKEN", "B___C", "A__"};
  std::set<std::string> seen;
  int spelled = 0;
  for (const auto* tenant : tenants)
    for (const auto* name : names)
      if (const auto variable = secret_variable(tenant, name)) {
        EXPECT_TRUE(seen.insert(*variable).second) << *variable;
        ++spelled;
      }
  EXPECT_EQ(spelled, 3 + 6 * 10);  // `default` has none with two underscores; six others can be spelled
  EXPECT_EQ(secret_variable("default", "TOKEN"), "PAWL_SECRET_TOKEN");
  EXPECT_EQ(secret_variable("acme-eu", "TOKEN"), "PAWL_SECRET_ACME_EU__TOKEN");
}

TEST(SecretVariables, are_taken_out_of_the_environment) {
  ::setenv("PAWL_SECRET_TAKEN", "abc", 1);
  auto taken = take_secret_variables();
  EXPECT_EQ(taken["PAWL_SECRET_TAKEN"], "abc");
  EXPECT_EQ(std::getenv("PAWL_SECRET_TAKEN"), nullptr);
  Secrets secrets({.variables = taken});
  EXPECT_EQ(secrets.find("default", "TAKEN"), "abc");
}

}  // namespace
}  // namespace pawl
