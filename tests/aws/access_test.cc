// Credentials and endpoints, from where AWS's own tools take them.
#include "aws/access.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

namespace pawl {
namespace {

namespace fs = std::filesystem;

// Nothing is set but what a test sets; afterwards all is as it was.
class AwsAccessTest : public testing::Test {
 protected:
  AwsAccessTest() {
    for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION",
                             "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE",
                             "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SFN", "HOME"}) {
      const char* value = std::getenv(name);
      before_[name] = value ? std::optional<std::string>(value) : std::nullopt;
      ::unsetenv(name);
    }
    std::string name = (fs::temp_directory_path() / "pawl-aws-XXXXXX").string();
    home_ = ::mkdtemp(name.data());
    set("HOME", home_.string());
    fs::create_directory(home_ / ".aws");
  }
  ~AwsAccessTest() override {
    for (const auto& [name, value] : before_)
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    fs::remove_all(home_);
  }

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  void write(const std::string& file, const std::string& text) const { std::ofstream(home_ / file) << text; }

  fs::path home_;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(AwsAccessTest, is_not_complete_when_nobody_says_anything) {
  const AwsAccess access = find_aws_access();
  EXPECT_FALSE(access.is_complete());
  EXPECT_EQ(access.region, "us-east-1");
}

TEST_F(AwsAccessTest, comes_from_the_files_of_the_profile_that_is_named) {
  write(".aws/credentials",
        "[default]\naws_access_key_id = AK1\naws_secret_access_key=S1\n\n# other\n[ops]\naws_access_key_id=AK2\n"
        "aws_secret_access_key = S2/+=\naws_session_token = T2\n");
  write(".aws/config", "[default]\nregion = eu-west-1\n[profile ops]\nregion=eu-north-1\n");
  AwsAccess access = find_aws_access();
  EXPECT_EQ(access.access_key + " " + access.secret_key + " " + access.session_token, "AK1 S1 ");
  EXPECT_EQ(access.region, "eu-west-1");
  set("AWS_PROFILE", "ops");
  access = find_aws_access();
  EXPECT_EQ(access.access_key + " " + access.secret_key + " " + access.session_token, "AK2 S2/+= T2");
  EXPECT_EQ(access.region, "eu-north-1");
}

TEST_F(AwsAccessTest, may_be_in_files_that_are_elsewhere) {
  write("keys", "[default]\naws_access_key_id=AK\naws_secret_access_key=S\n");
  write("settings", "[default]\nregion=sa-east-1\n");
  set("AWS_SHARED_CREDENTIALS_FILE", (home_ / "keys").string());
  set("AWS_CONFIG_FILE", (home_ / "settings").string());
  EXPECT_TRUE(find_aws_access().is_complete());
  EXPECT_EQ(find_aws_access().region, "sa-east-1");
}

TEST_F(AwsAccessTest, of_the_environment_comes_first_and_whole) {
  write(".aws/credentials", "[default]\naws_access_key_id=AK1\naws_secret_access_key=S1\naws_session_token=T1\n");
  set("AWS_ACCESS_KEY_ID", "AK");
  set("AWS_SECRET_ACCESS_KEY", "S");
  set("AWS_REGION", "ap-south-1");
  const AwsAccess access = find_aws_access();
  EXPECT_EQ(access.access_key + " " + access.secret_key + " " + access.session_token, "AK S ");  // no token of others
  EXPECT_EQ(access.region, "ap-south-1");
}

TEST_F(AwsAccessTest, of_the_environment_is_never_completed_from_a_file) {
  write(".aws/credentials", "[default]\naws_access_key_id=AK1\naws_secret_access_key=S1\n");
  set("AWS_ACCESS_KEY_ID", "AK");
  const AwsAccess access = find_aws_access();
  EXPECT_EQ(access.access_key, "AK");
  EXPECT_EQ(access.secret_key, "");
  EXPECT_FALSE(access.is_complete());
}

TEST_F(AwsAccessTest, an_empty_variable_is_the_same_as_none) {
  write(".aws/credentials", "[default]\naws_access_key_id=AK1\naws_secret_access_key=S1\n");
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"})
    set(name, "");
  EXPECT_EQ(find_aws_access().access_key, "AK1");
  EXPECT_EQ(find_aws_access().region, "us-east-1");
}

TEST_F(AwsAccessTest, a_profile_that_is_in_no_file_has_no_credentials_and_borrows_none) {
  write(".aws/credentials", "[default]\naws_access_key_id=AK1\naws_secret_access_key=S1\n");
  write(".aws/config", "[default]\nregion=eu-west-1\n[ops]\nregion=eu-north-1\n");  // without the word `profile`
  set("AWS_PROFILE", "ops");
  EXPECT_FALSE(find_aws_access().is_complete());
  EXPECT_EQ(find_aws_access().region, "us-east-1");
}

TEST_F(AwsAccessTest, the_region_of_the_environment_comes_before_that_of_a_file) {
  write(".aws/config", "[default]\nregion = eu-west-1\n");
  EXPECT_EQ(find_aws_access().region, "eu-west-1");
  set("AWS_DEFAULT_REGION", "eu-west-2");
  EXPECT_EQ(find_aws_access().region, "eu-west-2");
  set("AWS_REGION", "eu-west-3");
  EXPECT_EQ(find_aws_access().region, "eu-west-3");
}

TEST_F(AwsAccessTest, a_file_may_have_comments_blanks_and_line_ends_of_windows) {
  write(".aws/credentials",
        "aws_access_key_id=outside\r\n\r\n  [default]  \r\n#aws_access_key_id=AK0\r\n"
        "\taws_access_key_id\t=  AK1  \r\nnonsense\r\naws_secret_access_key=S1==\r\n");
  const AwsAccess access = find_aws_access();
  EXPECT_EQ(access.access_key, "AK1");
  EXPECT_EQ(access.secret_key, "S1==");
}

TEST_F(AwsAccessTest, an_endpoint_is_the_one_that_is_given_or_the_services_or_the_one_for_all) {
  EXPECT_EQ(find_aws_endpoint("", "SFN"), "");
  set("AWS_ENDPOINT_URL", "http://all:1/");
  EXPECT_EQ(find_aws_endpoint("", "SFN"), "http://all:1");
  set("AWS_ENDPOINT_URL_SFN", "http://sfn:2");
  EXPECT_EQ(find_aws_endpoint("", "SFN"), "http://sfn:2");
  EXPECT_EQ(find_aws_endpoint("", "S3"), "http://all:1");
  EXPECT_EQ(find_aws_endpoint("http://given:3", "SFN"), "http://given:3");
}

}  // namespace
}  // namespace pawl
