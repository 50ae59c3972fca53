#include "aws/access.h"

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <map>

namespace pawl {
namespace {

std::string environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? value : "";
}

// Of one section of an INI file as AWS's tools write them.
std::map<std::string, std::string> read_profile(const std::string& path, const std::string& section) {
  std::map<std::string, std::string> out;
  std::ifstream in(path);
  bool is_ours = false;
  auto trimmed = [](std::string text) {
    const auto first = text.find_first_not_of(" \t\r");
    return first == text.npos ? std::string() : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
  };
  for (std::string line; std::getline(in, line);) {
    line = trimmed(line);
    if (line.starts_with('['))
      is_ours = line == "[" + section + "]";
    else if (auto equals = line.find('='); is_ours && equals != line.npos && !line.starts_with('#'))
      out[trimmed(line.substr(0, equals))] = trimmed(line.substr(equals + 1));
  }
  return out;
}

std::string file_of(const char* variable, const char* name) {
  const std::string named = environment(variable);
  return named.empty() ? environment("HOME") + "/.aws/" + name : named;
}

std::string first_of(std::initializer_list<std::string> texts) {
  for (const std::string& text : texts)
    if (!text.empty()) return text;
  return {};
}

}  // namespace

AwsAccess find_aws_access() {
  const std::string profile = first_of({environment("AWS_PROFILE"), "default"});
  auto secrets = read_profile(file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials"), profile);
  auto config =
      read_profile(file_of("AWS_CONFIG_FILE", "config"), profile == "default" ? "default" : "profile " + profile);
  const bool by_environment = !environment("AWS_ACCESS_KEY_ID").empty();
  AwsAccess out;
  out.access_key = by_environment ? environment("AWS_ACCESS_KEY_ID") : secrets["aws_access_key_id"];
  out.secret_key = by_environment ? environment("AWS_SECRET_ACCESS_KEY") : secrets["aws_secret_access_key"];
  out.session_token = by_environment ? environment("AWS_SESSION_TOKEN") : secrets["aws_session_token"];
  out.region = first_of({environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"), config["region"], "us-east-1"});
  return out;
}

std::string find_aws_endpoint(const std::string& given, const char* service) {
  std::string out =
      first_of({given, environment(std::string("AWS_ENDPOINT_URL_") + service), environment("AWS_ENDPOINT_URL")});
  while (out.ends_with('/')) out.pop_back();
  return out;
}

}  // namespace pawl
