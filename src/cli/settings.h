// What `pawl serve` can be told, in one table. A setting has one name: --like-this as a flag, PAWL_LIKE_THIS in the
// environment, like_this in the file. Precedence: flag, environment variable, file, default.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/installation_rules.h"
#include "core/time.h"
#include "evidence/evidence_follower.h"
#include "log/log.h"
#include "tools/agent.h"

namespace pawl {

struct ListenAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 7295;
};
std::optional<ListenAddress> parse_listen(std::string_view text);
// 127.0.0.1:7295, [::1]:7295
std::string print_listen(const ListenAddress& address);

struct ServeSettings {
  std::string data;
  std::string store;  // a database's address; empty: the data folder
  ListenAddress listen;
  std::string tls_cert;
  std::string tls_key;
  std::vector<std::string> origin;
  std::vector<std::string> host;
  bool workers = true;
  int worker_slots = 256;
  std::size_t working_set = 256 << 20;
  Duration grace = std::chrono::seconds(10);
  std::string secrets_command;
  std::string secrets_folder;
  std::vector<std::string> http_allow;
  std::string prices;
  std::string claude = "claude";
  SandboxUse sandbox = SandboxUse::auto_;
  std::string bwrap = "bwrap";
  std::vector<std::string> sandbox_readable;
  std::vector<std::string> sandbox_writable;
  std::size_t sandbox_memory = std::size_t{4} << 30;
  int sandbox_processes = 512;
  int sandbox_files = 1024;
  Duration logs_keep = std::chrono::hours(24 * 30);
  std::size_t logs_max = std::size_t{8} << 30;
  std::size_t log_max = std::size_t{128} << 20;
  std::optional<LogFormat> log_format;  // absent: text on a terminal, else JSON
  LogLevel log_level = LogLevel::info;
  bool access_log = false;
  int connections_max = 4096;
  int requests_max = 3072;
  std::size_t header_max = 16 << 10;
  std::size_t body_max = 8 << 20;
  std::size_t bodies_max = 256 << 20;
  std::size_t feed_max = 64 << 10;
  Duration header_timeout = std::chrono::seconds(10);
  Duration body_timeout = std::chrono::seconds(30);
  Duration idle_timeout = std::chrono::seconds(75);
  Duration write_timeout = std::chrono::seconds(30);
  std::string signing_key;  // empty: in the data folder
  bool accept_lost_keys = false;
  Duration checkpoint_interval = std::chrono::minutes(1);
  Duration verify_interval = std::chrono::hours(24);
  std::size_t verify_rate = std::size_t{1} << 20;
  BundlesWanted bundles = BundlesWanted::all;
  std::string artifacts;  // empty: in the data folder
  std::string artifacts_endpoint;
  std::string restate;  // its ingress; empty: none
  std::string restate_admin = "http://127.0.0.1:9070";
  std::string restate_token_file;
  Duration restate_kill_after = std::chrono::minutes(1);
  std::string stepfunctions;  // aws, or an endpoint; empty: none
  Duration provider_interval = std::chrono::seconds(1);
  Duration provider_lost_after = std::chrono::minutes(10);
  InstallationRules rules;  // only in the file: settings_sections.h
};

// Where a value goes, and what it may be.
namespace setting {
struct Text {
  std::string ServeSettings::*at;
};
struct Texts {
  std::vector<std::string> ServeSettings::*at;
};
struct Flag {
  bool ServeSettings::*at;
};
struct Count {
  int ServeSettings::*at;
  int min, max;
};
struct Bytes {
  std::size_t ServeSettings::*at;
  std::size_t min, max;
};
struct Span {
  Duration ServeSettings::*at;
  Duration min, max;
};
struct Address {
  ListenAddress ServeSettings::*at;
};
struct Format {
  std::optional<LogFormat> ServeSettings::*at;
};
struct Level {
  LogLevel ServeSettings::*at;
};
struct Bundles {
  BundlesWanted ServeSettings::*at;
};
struct Confinement {
  SandboxUse ServeSettings::*at;
};
using Target = std::variant<Text, Texts, Flag, Count, Bytes, Span, Address, Format, Level, Bundles, Confinement>;
}  // namespace setting

struct Setting {
  std::string_view name;  // as the file has it
  setting::Target target;
  std::string_view shape;  // what to write: FILE, ADDR:PORT
  std::string_view help;
  bool for_runs = false;  // also of `pawl run` and `pawl resume`, where these carry steps out themselves

  std::string flag() const;         // --like-this
  std::string environment() const;  // PAWL_LIKE_THIS
};

std::span<const Setting> serve_settings();
// The setting's value as it would be written in the file; empty when there is none.
std::string print_setting(const Setting& setting, const ServeSettings& values);

// Where settings come from.
struct SettingSources {
  struct Given {
    std::string name;
    std::vector<std::string> texts;
  };
  std::vector<Given> flags;
  std::string config;  // --config
  std::function<std::optional<std::string>(const std::string& name)> environment;
  bool for_runs = false;  // only settings of runs count
};

struct EffectiveSettings {
  ServeSettings values;
  std::filesystem::path folder;  // the data folder, whoever named it
  std::string file;              // the one that was read; empty: none
  std::vector<std::string>
      from;  // for each setting of the table, who said so: --listen, PAWL_LISTEN, pawl.yaml:3, default
};

// A variable of this process that is set to something.
std::optional<std::string> environment_variable(const std::string& name);

// Stops the command, with everything that is wrong and where, when something is.
EffectiveSettings read_settings(const SettingSources& sources);

// Files and folders that hold secrets of pawl itself, with these settings, beside the data folder. No sandbox shows
// them.
std::vector<std::string> own_paths(const EffectiveSettings& settings);
// Prefixes of the environment variables that may hold secrets of pawl itself, with these settings. No step's program is
// given one of them.
std::vector<std::string> own_variables(const ServeSettings& settings);

// A configuration file that says the same, with where each value comes from beside it.
std::string print_settings(const EffectiveSettings& settings);

}  // namespace pawl
