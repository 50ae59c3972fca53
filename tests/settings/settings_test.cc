#include "cli/settings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#include "cli/folder.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    std::string name = (fs::temp_directory_path() / "pawl-settings-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
    variables_["PAWL_DATA"] = (folder_ / "data").string();
    fs::create_directories(folder_ / "data");
  }
  ~SettingsTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& text, const std::string& name = "some.yaml") {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  void flag(std::string name, std::vector<std::string> texts) { flags_.push_back({std::move(name), std::move(texts)}); }
  EffectiveSettings read() {
    return read_settings({.flags = flags_, .config = config_, .environment = [this](const std::string& name) {
                            auto found = variables_.find(name);
                            return found == variables_.end() ? std::nullopt : std::optional(found->second);
                          }});
  }
  EffectiveSettings read(const std::string& text) {
    config_ = write(text);
    return read();
  }
  std::string problem() try {
    read();
    return "none";
  } catch (const Stop& stop) {
    return stop.what();
  }
  std::string problem(const std::string& text) {
    config_ = write(text);
    std::string said = problem();
    // The folder is another one each time.
    while (said.find(folder_.string()) != said.npos)
      said.erase(said.find(folder_.string()), folder_.string().size() + 1);
    return said;
  }
  static std::string from(const EffectiveSettings& settings, std::string_view name) {
    auto table = serve_settings();
    auto at = std::ranges::find(table, name, &Setting::name);
    return settings.from[static_cast<std::size_t>(at - table.begin())];
  }

  fs::path folder_;
  std::string config_;
  std::map<std::string, std::string> variables_;
  std::vector<SettingSources::Given> flags_;
};

TEST_F(SettingsTest, a_flag_goes_before_the_environment_that_before_the_file_that_before_the_default) {
  config_ = write("grace: 1s\nlog_level: warning\nbody_max: 1MiB\n");
  variables_["PAWL_GRACE"] = "2s";
  variables_["PAWL_LOG_LEVEL"] = "error";
  flag("grace", {"3s"});
  auto settings = read();
  EXPECT_EQ(settings.values.grace, std::chrono::seconds(3));
  EXPECT_EQ(from(settings, "grace"), "--grace");
  EXPECT_EQ(settings.values.log_level, LogLevel::error);
  EXPECT_EQ(from(settings, "log_level"), "PAWL_LOG_LEVEL");
  EXPECT_EQ(settings.values.body_max, 1u << 20);
  EXPECT_EQ(from(settings, "body_max"), config_ + ":3");
  EXPECT_EQ(from(settings, "listen"), "default");
}

TEST_F(SettingsTest, what_tenants_may_use_stands_in_sections_of_the_file) {
  const std::string text =
      "programs:\n  tenants:\n    acme: {folders: [/srv/acme, \"/srv/a b\"], env: [LANG], network: true}\n    other:\n"
      "secrets:\n  limits:\n    TOKEN: {tenants: [acme], workflows: [triage], tools: [github.labels]}\n";
  const auto settings = read(text);
  const InstallationRules& rules = settings.values.rules;
  ASSERT_EQ(rules.programs.size(), 2u);
  EXPECT_EQ(rules.programs.at("acme").folders, (std::vector<std::string>{"/srv/acme", "/srv/a b"}));
  EXPECT_EQ(rules.programs.at("acme").env, std::vector<std::string>{"LANG"});
  EXPECT_TRUE(rules.programs.at("acme").network);
  EXPECT_FALSE(rules.programs.at("other").network);
  EXPECT_EQ(rules.secrets.at("TOKEN").tenants, std::vector<std::string>{"acme"});
  EXPECT_EQ(rules.secrets.at("TOKEN").workflows, std::vector<std::string>{"triage"});
  EXPECT_EQ(rules.secrets.at("TOKEN").tools, std::vector<std::string>{"github.labels"});
  // What is printed says the same.
  const auto sections = [](const EffectiveSettings& printed) {
    const std::string all = print_settings(printed);
    return all.substr(all.find("programs:"));
  };
  EXPECT_EQ(sections(read(print_settings(settings))), sections(settings));
  EXPECT_EQ(read("grace: 1s\n").values.rules.programs.size(), 0u);
}

TEST_F(SettingsTest, mistakes_in_a_section_are_told_with_their_place) {
  EXPECT_EQ(problem("programs: {tenants: {acme: {folders: [srv]}}}\n"),
            "some.yaml:1:39: `folders` must be a list of absolute paths, not `srv`");
  EXPECT_EQ(problem("programs: {tenants: {\"a b\": {}}}\n"),
            "some.yaml:1:22: `a b` is no tenant's name: letters, digits, . _ and -");
  EXPECT_EQ(problem("programs: {tenants: {acme: {env: [A=B]}}}\n"),
            "some.yaml:1:35: `env` must be a list of names of variables, not `A=B`");
  EXPECT_NE(problem("programs: {acme: {}}\n").find("`acme`"), std::string::npos);
  EXPECT_EQ(problem("secrets: {limits: {token: {tools: [x]}}}\n"),
            "some.yaml:1:20: `token` is no secret's name: capitals, digits and _, beginning with a capital");
  EXPECT_EQ(problem("secrets: {limits: {TOKEN: {tools: []}}}\n"), "some.yaml:1:35: `tools` is empty; remove it");
}

TEST_F(SettingsTest, variables_with_credentials_are_pawls_own_when_it_uses_them) {
  EXPECT_EQ(own_variables(read("grace: 1s\n").values), std::vector<std::string>{"PAWL_"});
  EXPECT_EQ(own_variables(read("store: postgres://db/pawl\n").values), (std::vector<std::string>{"PAWL_", "PG"}));
  EXPECT_EQ(own_variables(read("stepfunctions: aws\n").values), (std::vector<std::string>{"PAWL_", "AWS_"}));
  EXPECT_EQ(own_variables(read("artifacts: s3://bucket/x\n").values), (std::vector<std::string>{"PAWL_", "AWS_"}));
}

TEST_F(SettingsTest, every_setting_can_be_given_in_each_of_the_three_places_and_printed_again) {
  std::map<std::string_view, std::string> other{{"data", variables_["PAWL_DATA"]},
                                                {"store", "\"postgres://pawl@db/pawl\""},
                                                {"listen", "\"[::1]:80\""},
                                                {"tls_cert", "/etc/cert.pem"},
                                                {"tls_key", "\"/etc/a key.pem\""},
                                                {"origin", "[https://a.example, https://b.example:8443]"},
                                                {"host", "[pawl.example]"},
                                                {"workers", "false"},
                                                {"worker_slots", "7"},
                                                {"grace", "1m30s"},
                                                {"secrets_command", "/usr/bin/vault-secret"},
                                                {"secrets_folder", "/etc/pawl/secrets"},
                                                {"http_allow", "[10.0.0.0/8, intranet.example:8080]"},
                                                {"prices", "/etc/pawl/prices.json"},
                                                {"claude", "/opt/claude"},
                                                {"sandbox", "required"},
                                                {"bwrap", "/opt/bwrap"},
                                                {"sandbox_readable", "[/srv/tools]"},
                                                {"sandbox_writable", "[/srv/cache]"},
                                                {"sandbox_memory", "1GiB"},
                                                {"sandbox_processes", "99"},
                                                {"sandbox_files", "256"},
                                                {"logs_keep", "7d"},
                                                {"log_format", "json"},
                                                {"log_level", "error"},
                                                {"access_log", "true"},
                                                {"connections_max", "100"},
                                                {"requests_max", "50"},
                                                {"signing_key", "/etc/signing-key.json"},
                                                {"accept_lost_keys", "true"},
                                                {"bundles", "all"},
                                                {"artifacts", "s3://audit/pawl"},
                                                {"artifacts_endpoint", "http://127.0.0.1:9000"},
                                                {"restate", "http://127.0.0.1:8080"},
                                                {"restate_admin", "http://127.0.0.1:9071"},
                                                {"restate_token_file", "/etc/restate-token"},
                                                {"stepfunctions", "aws"}};
  for (const Setting& setting : serve_settings()) {
    if (std::holds_alternative<setting::Bytes>(setting.target) && !other.contains(setting.name))
      other[setting.name] = "1MiB";
    if (std::holds_alternative<setting::Span>(setting.target) && !other.contains(setting.name))
      other[setting.name] = "7s";
  }
  variables_.clear();
  std::string file;
  for (const Setting& setting : serve_settings()) {
    ASSERT_TRUE(other.contains(setting.name)) << setting.name;
    file += fmt::format("{}: {}\n", setting.name, other[setting.name]);
  }
  auto by_file = read(file);
  for (const Setting& setting : serve_settings()) {
    EXPECT_EQ(print_setting(setting, by_file.values), other[setting.name]);
    EXPECT_TRUE(from(by_file, setting.name).starts_with(config_ + ":")) << setting.name;
  }
  auto again = read(print_settings(by_file));
  for (const Setting& setting : serve_settings())
    EXPECT_EQ(print_setting(setting, again.values), other[setting.name])
        << "what is printed is a file that says the same";

  config_.clear();
  auto bare = [](std::string text) {
    std::erase_if(text, [](char c) { return c == '"' || c == '['; });
    if (text.ends_with(']') && text.find("::") == text.npos) text.pop_back();
    return text;
  };
  other["listen"] = "127.0.0.2:80";
  for (const Setting& setting : serve_settings()) variables_[setting.environment()] = bare(other[setting.name]);
  auto by_variables = read();
  for (const Setting& setting : serve_settings()) {
    EXPECT_EQ(print_setting(setting, by_variables.values), other[setting.name]);
    EXPECT_EQ(from(by_variables, setting.name), setting.environment());
  }
}

TEST_F(SettingsTest, names_follow_one_rule) {
  for (const Setting& setting : serve_settings()) {
    std::string flag = setting.flag(), variable = setting.environment();
    EXPECT_TRUE(flag.starts_with("--") && flag.find('_') == flag.npos) << flag;
    EXPECT_TRUE(variable.starts_with("PAWL_")) << variable;
    EXPECT_FALSE(setting.help.empty());
  }
}

TEST_F(SettingsTest, an_unknown_key_is_refused_with_its_place_and_what_there_is) {
  std::string said = problem("listen: 127.0.0.1:0\nlissen: 127.0.0.1:0\n");
  EXPECT_TRUE(said.starts_with(
      "some.yaml:2:1: unknown setting `lissen`; did you mean `listen`?; there are data, store, listen, "))
      << said;
  for (const Setting& setting : serve_settings()) EXPECT_NE(said.find(setting.name), said.npos);
}

TEST_F(SettingsTest, wrong_values_are_refused_with_their_places_all_at_once) {
  EXPECT_EQ(problem("grace: soon\nworkers: 1\nconnections_max: many\nbody_max: 8MB\nlisten: here\nlog_level: loud\n"
                    "origin: {a: b}\ntls_cert: []\nworker_slots:\n"),
            "some.yaml:7:9: `origin` must be a list of texts\n"
            "some.yaml:8:11: `tls_cert` must be one value\n"
            "some.yaml:9:1: `worker_slots` must be one value\n"
            "some.yaml:5:9: `listen` must be an address and a port like 127.0.0.1:7295 or [::1]:7295, not `here`\n"
            "some.yaml:2:10: `workers` must be true or false, not `1`\n"
            "some.yaml:1:8: `grace` must be a duration from 0s to 1h, like 10s or 1m30s, not `soon`\n"
            "some.yaml:6:12: `log_level` must be info, warning or error, not `loud`\n"
            "some.yaml:3:18: `connections_max` must be a whole number from 1 to 1000000, not `many`\n"
            "some.yaml:4:11: `body_max` must be a size from 1KiB to 1GiB, like 512KiB or 8MiB, not `8MB`");
}

TEST_F(SettingsTest, what_is_no_map_of_settings_is_refused) {
  EXPECT_EQ(problem("- listen\n"), "some.yaml:1:1: the file must be a map of settings, like `listen: 127.0.0.1:7295`");
  EXPECT_TRUE(problem("a: [1\n").starts_with("some.yaml:")) << problem("a: [1\n");
  EXPECT_EQ(problem("# nothing but a comment\n"), "none");
}

TEST_F(SettingsTest, a_wrong_flag_or_variable_is_named) {
  flag("grace", {"soon"});
  variables_["PAWL_WORKERS"] = "maybe";
  EXPECT_EQ(problem(),
            "PAWL_WORKERS must be true or false, not `maybe`\n"
            "--grace must be a duration from 0s to 1h, like 10s or 1m30s, not `soon`");
}

TEST_F(SettingsTest, that_contradict_each_other_are_refused) {
  EXPECT_EQ(problem("connections_max: 10\n"),
            "requests_max is 3072 (default) and connections_max is 10 (some.yaml:1): a connection has one request at a "
            "time, so the first cannot be more than the second");
  EXPECT_EQ(problem("tls_cert: a\n"), "some.yaml:1 needs its private key: set tls_key too");
  flag("tls_key", {"k"});
  EXPECT_EQ(problem(""), "--tls-key needs a certificate: set tls_cert too");
}

TEST_F(SettingsTest, the_usual_file_lies_in_the_data_folder) {
  EXPECT_EQ(read().file, "");
  std::string usual = write("grace: 5s\n", "data/pawl.yaml");
  EXPECT_EQ(read().file, usual);
  EXPECT_EQ(read().values.grace, std::chrono::seconds(5));
  variables_["PAWL_CONFIG"] = write("grace: 6s\n");
  EXPECT_EQ(read().values.grace, std::chrono::seconds(6));
  config_ = write("grace: 7s\n", "third.yaml");
  EXPECT_EQ(read().values.grace, std::chrono::seconds(7));
  config_ = (folder_ / "nowhere.yaml").string();
  EXPECT_EQ(problem(), "--config: there is no file " + config_);
}

TEST_F(SettingsTest, a_file_in_the_data_folder_cannot_move_that) {
  write("data: /tmp\n", "data/pawl.yaml");
  variables_.erase("PAWL_DATA");
  flag("data", {(folder_ / "data").string()});
  EXPECT_EQ(problem(), "none") << "the flag goes first";
  flags_.clear();
  ::setenv("XDG_DATA_HOME", folder_.c_str(), 1);
  fs::rename(folder_ / "data", folder_ / "pawl");
  EXPECT_NE(problem().find("this file was found in the data folder"), std::string::npos) << problem();
}

// --- the page ---

std::string settings_reference() {
  std::string out = "| in the file | as a flag | in the environment | default | what |\n|---|---|---|---|---|\n";
  for (const Setting& setting : serve_settings()) {
    bool is_flag = std::holds_alternative<setting::Flag>(setting.target);
    std::string usual = print_setting(setting, ServeSettings{});
    std::string flag = is_flag ? fmt::format("`{}`, `--no-{}`", setting.flag(), setting.flag().substr(2))
                               : fmt::format("`{} {}`", setting.flag(), setting.shape);
    out += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", setting.name, flag, setting.environment(),
                       usual.empty() ? "" : "`" + usual + "`", setting.help);
  }
  return out;
}

TEST(Docs, the_page_on_configuration_is_what_the_table_says) {
  fs::path path = fs::path(PAWL_SOURCE_DIR) / "docs/configuration.md";
  std::ifstream in(path, std::ios::binary);
  std::string page{std::istreambuf_iterator<char>(in), {}};
  const std::string opening = "<!-- pawl settings -->\n";
  auto begin = page.find(opening), end = page.find("<!-- end -->");
  ASSERT_TRUE(begin != page.npos && end != page.npos && begin < end);
  begin += opening.size();
  if (std::getenv("PAWL_UPDATE_DOCS")) {
    page.replace(begin, end - begin, settings_reference());
    std::ofstream(path, std::ios::binary) << page;
  } else {
    EXPECT_EQ(page.substr(begin, end - begin), settings_reference())
        << "PAWL_UPDATE_DOCS=1 test_settings --gtest_filter='Docs.*' writes it anew";
  }
}

}  // namespace
}  // namespace pawl
