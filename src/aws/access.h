// Who asks AWS, and where: looked for where AWS's own tools look.
#pragma once

#include <string>
#include <string_view>

namespace pawl {

// Of the environment variables that hold credentials, or say where they are.
inline constexpr std::string_view aws_variable_prefix = "AWS_";

struct AwsAccess {
  std::string access_key, secret_key, session_token;
  std::string region;  // us-east-1 unless something says otherwise

  bool is_complete() const { return !access_key.empty() && !secret_key.empty(); }
};

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION; otherwise the files of the profile that
// AWS_PROFILE names. What is nowhere is empty.
AwsAccess find_aws_access();

// Of one service: `given` when there is one, then AWS_ENDPOINT_URL_<service>, then AWS_ENDPOINT_URL; without a slash at
// its end. Empty: Amazon's own.
std::string find_aws_endpoint(const std::string& given, const char* service);

}  // namespace pawl
