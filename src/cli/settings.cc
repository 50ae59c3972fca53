#include "cli/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <expected>
#include <fstream>
#include <iterator>
#include <map>

#include "aws/access.h"
#include "cli/folder.h"
#include "cli/settings_sections.h"
#include "core/source_reader.h"
#include "providers/transport.h"
#include "store/postgres/postgres_store.h"
#include "tools/http_address.h"
#include "yaml/yaml.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;
using S = ServeSettings;
using namespace std::chrono_literals;

constexpr std::string_view file_name = "pawl.yaml";
constexpr std::size_t kib = 1 << 10, mib = 1 << 20, gib = 1 << 30;
constexpr std::size_t errors_max = 20;

const std::array table = std::to_array<Setting>({
    {"data", setting::Text{&S::data}, "DIR", "the data folder [$XDG_DATA_HOME/pawl, else ~/.local/share/pawl]"},
    {"store", setting::Text{&S::store}, "URL",
     "postgres://user@host/database, for any number of servers; otherwise runs are kept in the data folder"},
    {"listen", setting::Address{&S::listen}, "ADDR:PORT", "address and port; port 0 takes any that is free"},
    {"tls_cert", setting::Text{&S::tls_cert}, "FILE", "PEM file with the certificate chain; without one, plain HTTP"},
    {"tls_key", setting::Text{&S::tls_key}, "FILE", "PEM file with its private key"},
    {"origin", setting::Texts{&S::origin}, "URL", "a web page's origin that may talk to this server; may be repeated"},
    {"host", setting::Texts{&S::host}, "NAME", "a name that this server is called by, behind a proxy; may be repeated"},
    {"workers", setting::Flag{&S::workers}, "",
     "carry out the built-in tools here; otherwise they are left to other workers"},
    {"worker_slots", setting::Count{&S::worker_slots, 1, 4096}, "N", "steps that are worked on here at once"},
    {"working_set", setting::Bytes{&S::working_set, 1 * mib, 1024 * gib}, "SIZE",
     "memory for runs that are not finished; runs that no worker holds leave it when it is full"},
    {"grace", setting::Span{&S::grace, 0s, 1h}, "DURATION",
     "how long requests and steps may take to finish when the server is told to stop"},
    {"secrets_command", setting::Text{&S::secrets_command}, "FILE",
     "a program that is called with a tenant's and a secret's name and prints the value", true},
    {"secrets_folder", setting::Text{&S::secrets_folder}, "DIR",
     "a folder with secrets, each in a file DIR/<tenant>/<NAME>", true},
    {"http_allow", setting::Texts{&S::http_allow}, "ADDRESS",
     "an address that is not public and that steps may reach all the same: 10.0.0.0/8, intranet.example:8080; may be "
     "repeated",
     true},
    {"prices", setting::Text{&S::prices}, "FILE",
     "what model calls cost, instead of the table that comes with pawl (docs/connectors.md)", true},
    {"claude", setting::Text{&S::claude}, "FILE", "the Claude Code CLI that agent.claude runs", true},
    {"sandbox", setting::Confinement{&S::sandbox}, "WORD",
     "off: steps have a sandbox only when they demand one; auto: agents have one where it can be had; required: agents "
     "and "
     "shell steps run in one or not at all",
     true},
    {"bwrap", setting::Text{&S::bwrap}, "FILE", "the program bubblewrap, which makes sandboxes", true},
    {"sandbox_readable", setting::Texts{&S::sandbox_readable}, "PATH",
     "what every sandbox can read beside the system; may be repeated", true},
    {"sandbox_writable", setting::Texts{&S::sandbox_writable}, "PATH",
     "what every sandbox of a tenant that is not confined can write beside its workspace; may be repeated", true},
    {"sandbox_memory", setting::Bytes{&S::sandbox_memory, 16 * mib, 1024 * gib}, "SIZE",
     "memory of one sandbox at most", true},
    {"sandbox_processes", setting::Count{&S::sandbox_processes, 1, 1'000'000}, "N",
     "processes and threads in one sandbox at most", true},
    {"sandbox_files", setting::Count{&S::sandbox_files, 16, 1'000'000}, "N",
     "files that a process in a sandbox can have open", true},
    {"logs_keep", setting::Span{&S::logs_keep, 1h, 24h * 3650}, "DURATION", "how long the logs of agents are kept",
     true},
    {"logs_max", setting::Bytes{&S::logs_max, 1 * mib, 65536 * gib}, "SIZE",
     "the logs of all agents; the oldest are deleted first", true},
    {"log_max", setting::Bytes{&S::log_max, 64 * kib, 64 * gib}, "SIZE",
     "one log of one attempt; of a longer one the middle is deleted", true},
    {"log_format", setting::Format{&S::log_format}, "WORD", "text or json [text on a terminal, else json]"},
    {"log_level", setting::Level{&S::log_level}, "WORD", "info, warning or error: that, and what is graver"},
    {"access_log", setting::Flag{&S::access_log}, "", "a log line for each request"},
    {"connections_max", setting::Count{&S::connections_max, 1, 1'000'000}, "N",
     "connections at once of clients with a key; further ones are turned away"},
    {"requests_max", setting::Count{&S::requests_max, 1, 1'000'000}, "N",
     "requests at once, workers' reports not counted; the rest of the connections is for those"},
    {"header_max", setting::Bytes{&S::header_max, 1 * kib, 1 * mib}, "SIZE", "a request's headers"},
    {"body_max", setting::Bytes{&S::body_max, 1 * kib, 1 * gib}, "SIZE", "a request's body"},
    {"bodies_max", setting::Bytes{&S::bodies_max, 1 * mib, 64 * gib}, "SIZE", "the bodies of all requests at once"},
    {"feed_max", setting::Bytes{&S::feed_max, 16 * kib, 1 * gib}, "SIZE",
     "what is queued for one follower of the feed; a slower one goes on from the journal"},
    {"header_timeout", setting::Span{&S::header_timeout, 10ms, 1h}, "DURATION", "for a request's headers to arrive"},
    {"body_timeout", setting::Span{&S::body_timeout, 10ms, 1h}, "DURATION", "for a request's body to arrive"},
    {"idle_timeout", setting::Span{&S::idle_timeout, 10ms, 24h}, "DURATION", "between two requests on a connection"},
    {"write_timeout", setting::Span{&S::write_timeout, 10ms, 1h}, "DURATION",
     "for a client to take anything of an answer"},
    {"signing_key", setting::Text{&S::signing_key}, "FILE",
     "what signs checkpoints and bundles; every server of an installation has the same [signing-key.json in the data "
     "folder]"},
    {"accept_lost_keys", setting::Flag{&S::accept_lost_keys}, "",
     "start although the installation's secret or signing key is missing or another one; API keys, or evidence, that "
     "needed it are lost"},
    {"checkpoint_interval", setting::Span{&S::checkpoint_interval, 10ms, 24h}, "DURATION",
     "what has changed is covered by a signed checkpoint at most this often"},
    {"verify_interval", setting::Span{&S::verify_interval, 10ms, 24h * 365}, "DURATION",
     "everything that is stored is checked against the journal once in this time"},
    {"verify_rate", setting::Bytes{&S::verify_rate, 64 * kib, 64 * gib}, "SIZE",
     "how much of it is checked in a second, at most"},
    {"bundles", setting::Bundles{&S::bundles}, "WORD",
     "all, governed or none: of which runs an evidence bundle is stored when they end"},
    {"artifacts", setting::Text{&S::artifacts}, "DIR or s3://BUCKET/PREFIX",
     "where bundles are stored [the folder evidence in the data folder]"},
    {"artifacts_endpoint", setting::Text{&S::artifacts_endpoint}, "URL", "of an S3 that is not Amazon's"},
    {"restate", setting::Text{&S::restate}, "URL",
     "the ingress of the Restate that carries workflows with `provider: restate` (docs/providers.md)"},
    {"restate_admin", setting::Text{&S::restate_admin}, "URL", "that Restate's admin address"},
    {"restate_token_file", setting::Text{&S::restate_token_file}, "FILE", "a file with the token that it wants"},
    {"restate_kill_after", setting::Span{&S::restate_kill_after, 1s, 24h}, "DURATION",
     "how long a canceled invocation may take to undo what it did, before it is killed"},
    {"stepfunctions", setting::Text{&S::stepfunctions}, "aws or URL",
     "carry workflows with `provider: stepfunctions` in Amazon's own service, or in what speaks its protocol there"},
    {"provider_interval", setting::Span{&S::provider_interval, 10ms, 1h}, "DURATION",
     "how often runs executed by other engines are polled, at most"},
    {"provider_lost_after", setting::Span{&S::provider_lost_after, 1s, 24h * 365}, "DURATION",
     "how long a run may be unknown to who carries it before it has failed"},
});

using Read = std::expected<void, std::string>;

Read wanted(std::string_view what, std::string_view text) {
  return std::unexpected(fmt::format("must be {}, not {}", what, quote(text)));
}

template <class Number>
std::optional<Number> read_whole(std::string_view text) {
  Number out = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

struct Unit {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array units{Unit{"GiB", gib}, Unit{"MiB", mib}, Unit{"KiB", kib}, Unit{"", 1}};

std::optional<std::size_t> parse_bytes(std::string_view text) {
  for (const Unit& unit : units) {
    if (!text.ends_with(unit.name)) continue;
    auto number = read_whole<std::size_t>(text.substr(0, text.size() - unit.name.size()));
    return number && *number <= SIZE_MAX / unit.bytes ? std::optional(*number * unit.bytes) : std::nullopt;
  }
  return std::nullopt;
}

std::string print_bytes(std::size_t bytes) {
  for (const Unit& unit : units)
    if (bytes % unit.bytes == 0) return std::to_string(bytes / unit.bytes) + std::string(unit.name);
  return {};
}

// As a scalar of YAML that is read as this text.
std::string yaml_text(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._:-";
  if (text.empty() || (text.find_first_not_of(plain) == text.npos && text.front() != '-' && text.back() != ':'))
    return text;
  std::string out;
  append_json_string(out, text);
  return out;
}

// Takes one text for one setting.
struct Reader {
  S& values;
  std::string_view text;

  Read operator()(setting::Text to) const {
    values.*to.at = text;
    return text.empty() ? wanted("text", text) : Read{};
  }
  Read operator()(setting::Texts to) const {
    (values.*to.at).emplace_back(text);
    return text.empty() ? wanted("text", text) : Read{};
  }
  Read operator()(setting::Flag to) const {
    if (text != "true" && text != "false") return wanted("true or false", text);
    values.*to.at = text == "true";
    return {};
  }
  Read operator()(setting::Count to) const {
    auto number = read_whole<int>(text);
    if (!number || *number < to.min || *number > to.max)
      return wanted(fmt::format("a whole number from {} to {}", to.min, to.max), text);
    values.*to.at = *number;
    return {};
  }
  Read operator()(setting::Bytes to) const {
    auto bytes = parse_bytes(text);
    if (!bytes || *bytes < to.min || *bytes > to.max)
      return wanted(fmt::format("a size from {} to {}, like 512KiB or 8MiB", print_bytes(to.min), print_bytes(to.max)),
                    text);
    values.*to.at = *bytes;
    return {};
  }
  Read operator()(setting::Span to) const {
    auto span = parse_duration(text);
    if (!span || *span < to.min || *span > to.max)
      return wanted(
          fmt::format("a duration from {} to {}, like 10s or 1m30s", print_duration(to.min), print_duration(to.max)),
          text);
    values.*to.at = *span;
    return {};
  }
  Read operator()(setting::Address to) const {
    auto address = parse_listen(text);
    if (!address) return wanted("an address and a port like 127.0.0.1:7295 or [::1]:7295", text);
    values.*to.at = *address;
    return {};
  }
  Read operator()(setting::Format to) const { return word(values.*to.at, parse_enum<LogFormat>(text)); }
  Read operator()(setting::Bundles to) const { return word(values.*to.at, parse_enum<BundlesWanted>(text)); }
  Read operator()(setting::Confinement to) const { return word(values.*to.at, parse_enum<SandboxUse>(text)); }
  Read operator()(setting::Level to) const { return word(values.*to.at, parse_enum<LogLevel>(text)); }

 private:
  template <class To, class Enum>
  Read word(To& to, std::optional<Enum> value) const {
    if (!value) return wanted(list_words(enum_names<Enum>), text);
    to = *value;
    return {};
  }
};

struct Printer {
  const S& values;

  std::string operator()(setting::Text of) const { return yaml_text(values.*of.at); }
  std::string operator()(setting::Texts of) const {
    std::string out;
    for (const std::string& text : values.*of.at) out += (out.empty() ? "" : ", ") + yaml_text(text);
    return out.empty() ? out : "[" + out + "]";
  }
  std::string operator()(setting::Flag of) const { return values.*of.at ? "true" : "false"; }
  std::string operator()(setting::Count of) const { return std::to_string(values.*of.at); }
  std::string operator()(setting::Bytes of) const { return print_bytes(values.*of.at); }
  std::string operator()(setting::Span of) const { return print_duration(values.*of.at); }
  std::string operator()(setting::Address of) const { return yaml_text(print_listen(values.*of.at)); }
  std::string operator()(setting::Format of) const {
    auto format = values.*of.at;
    return format ? std::string(to_string(*format)) : "";
  }
  std::string operator()(setting::Bundles of) const { return std::string(to_string(values.*of.at)); }
  std::string operator()(setting::Confinement of) const { return std::string(to_string(values.*of.at)); }
  std::string operator()(setting::Level of) const { return std::string(to_string(values.*of.at)); }
};

bool holds_comments_only(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin != line.npos && line[begin] != '#') return false;
  }
  return true;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    out.emplace_back(item);
  }
  return out;
}

struct Said {
  std::vector<std::string> texts;
  std::string by;         // for people: --listen, PAWL_LISTEN, pawl.yaml:3
  std::string complaint;  // how a complaint about it begins
};

class Settings {
 public:
  explicit Settings(const SettingSources& sources) : sources_(sources) {}

  EffectiveSettings read() {
    out_.file = find_file();
    if (!out_.file.empty()) read_file();
    for (const Setting& setting : table)
      if (setting.for_runs || setting.name == "data" || !sources_.for_runs)
        take(setting);
      else
        out_.from.push_back("default");
    out_.folder = out_.values.data.empty() ? data_folder("") : fs::path(out_.values.data);
    check_together();
    if (problems_.empty()) return std::move(out_);
    std::string text;
    for (const std::string& problem : problems_) text += (text.empty() ? "" : "\n") + problem;
    throw Stop(exit_usage, text);
  }

 private:
  std::string find_file() {
    std::string named = sources_.config, by = "--config";
    if (auto variable = sources_.environment("PAWL_CONFIG"); named.empty() && variable) {
      named = *variable;
      by = "PAWL_CONFIG";
    }
    std::error_code ignored;
    if (!named.empty()) {
      if (!fs::is_regular_file(named, ignored))
        throw Stop(exit_not_found, fmt::format("{}: there is no file {}", by, named));
      return named;
    }
    std::string data;
    if (auto said = said_by_hand("data")) data = said->texts.back();
    fs::path usual = data_folder(data) / file_name;
    is_in_data_ = fs::is_regular_file(usual, ignored);
    return is_in_data_ ? usual.string() : "";
  }

  // By a flag or a variable.
  std::optional<Said> said_by_hand(std::string_view name) const {
    const Setting& setting = *std::ranges::find(table, name, &Setting::name);
    for (const auto& given : sources_.flags)
      if (given.name == name) return Said{given.texts, setting.flag(), setting.flag()};
    auto text = sources_.environment(setting.environment());
    if (!text) return std::nullopt;
    bool is_list = std::holds_alternative<setting::Texts>(setting.target);
    return Said{is_list ? split_list(*text) : std::vector{*text}, setting.environment(), setting.environment()};
  }

  void read_file() {
    std::ifstream in(out_.file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    if (in.bad() || !in) throw Stop(exit_not_found, fmt::format("cannot read {}", out_.file));
    if (holds_comments_only(text)) return;
    auto document = read_yaml(text);
    if (!document) return complain(document.error());
    if (document->kind != SourceNode::Kind::map)
      return complain({document->place, "the file must be a map of settings, like `listen: 127.0.0.1:7295`"});
    for (const auto& entry : document->entries) read_entry(entry);
  }

  void read_entry(const SourceNode::Entry& entry) {
    if (auto section = std::ranges::find(setting_sections, entry.key, &SettingSection::name);
        section != setting_sections.end())
      return read_section(*section, entry.value);
    std::array<std::string_view, table.size() + setting_sections.size()> names;
    auto rest = std::ranges::transform(table, names.begin(), &Setting::name).out;
    std::ranges::transform(setting_sections, rest, &SettingSection::name);
    auto setting = std::ranges::find(table, entry.key, &Setting::name);
    if (setting == table.end())
      return complain({entry.place, fmt::format("unknown setting {}{}; there are {}", quote(entry.key),
                                                suggest(entry.key, names), list_words(names, "and"))});
    const SourceNode& value = entry.value;
    bool is_list = std::holds_alternative<setting::Texts>(setting->target);
    Said said{{}, fmt::format("{}:{}", out_.file, entry.place.line), {}};
    if (value.kind == SourceNode::Kind::scalar) said.texts = {value.scalar};
    if (value.kind == SourceNode::Kind::list && is_list)
      for (const SourceNode& item : value.items) {
        if (item.kind != SourceNode::Kind::scalar)
          return complain({item.place, fmt::format("{} must be a list of texts", quote(entry.key))});
        said.texts.push_back(item.scalar);
      }
    if (said.texts.empty() && !(is_list && value.kind == SourceNode::Kind::list))
      return complain({value.place.line ? value.place : entry.place,
                       fmt::format("{} must be {}", quote(entry.key), is_list ? "a list of texts" : "one value")});
    SourceError place{value.place, quote(entry.key)};
    said.complaint = print_error(out_.file, place);
    in_file_[entry.key] = std::move(said);
  }

  void read_section(const SettingSection& section, const SourceNode& node) {
    SourceReader reader;
    section.read(reader, node, out_.values.rules);
    for (const SourceError& error : reader.take_errors(errors_max)) complain(error);
  }

  void take(const Setting& setting) {
    auto said = said_by_hand(setting.name);
    if (auto found = in_file_.find(setting.name); !said && found != in_file_.end()) said = found->second;
    out_.from.push_back(said ? said->by : "default");
    if (!said) return;
    for (const std::string& text : said->texts)
      if (auto read = std::visit(Reader{out_.values, text}, setting.target); !read)
        problems_.push_back(fmt::format("{} {}", said->complaint, read.error()));
  }

  void check_together() {
    const S& values = out_.values;
    if (values.tls_cert.empty() != values.tls_key.empty())
      problems_.push_back(values.tls_cert.empty() ? by("tls_key") + " needs a certificate: set tls_cert too"
                                                  : by("tls_cert") + " needs its private key: set tls_key too");
    if (values.requests_max > values.connections_max)
      problems_.push_back(
          fmt::format("requests_max is {} ({}) and connections_max is {} ({}): a connection has one request "
                      "at a time, so the first cannot be more than the second",
                      values.requests_max, by("requests_max"), values.connections_max, by("connections_max")));
    for (const std::string& text : values.http_allow)
      if (auto allow = parse_http_allow(text); !allow)
        problems_.push_back(fmt::format("{}: {}", by("http_allow"), allow.error()));
    auto check_url = [&](const char* name, const std::string& url) {
      if (!url.empty() && !providers::is_base_url(url))
        problems_.push_back(
            fmt::format("{} must be an address like http://127.0.0.1:8080, not {}", by(name), quote(url)));
    };
    check_url("restate", values.restate);
    check_url("restate_admin", values.restate_admin);
    if (values.stepfunctions != "aws") check_url("stepfunctions", values.stepfunctions);
    std::error_code ignored;
    if (is_in_data_ && in_file_.contains("data") &&
        !fs::equivalent(values.data, fs::path(out_.file).parent_path(), ignored))
      problems_.push_back(by("data") +
                          ": this file was found in the data folder, so it cannot name another one; use --config");
  }

  const std::string& by(std::string_view name) const {
    return out_.from[static_cast<std::size_t>(std::ranges::find(table, name, &Setting::name) - table.begin())];
  }
  void complain(const SourceError& error) {
    if (problems_.size() < errors_max) problems_.push_back(print_error(out_.file, error));
  }

  const SettingSources& sources_;
  EffectiveSettings out_;
  bool is_in_data_ = false;
  std::map<std::string, Said, std::less<>> in_file_;
  std::vector<std::string> problems_;
};

}  // namespace

std::optional<ListenAddress> parse_listen(std::string_view text) {
  std::size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != host.npos)
    return std::nullopt;
  auto port = read_whole<std::uint16_t>(text.substr(colon + 1));
  if (!port || host.empty()) return std::nullopt;
  return ListenAddress{std::string(host), *port};
}

std::string print_listen(const ListenAddress& address) {
  bool is_v6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", address.host, is_v6 ? "]" : "", address.port);
}

std::string Setting::flag() const {
  std::string out = "--" + std::string(name);
  std::ranges::replace(out, '_', '-');
  return out;
}

std::string Setting::environment() const {
  std::string out = "PAWL_" + std::string(name);
  std::ranges::transform(out, out.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return out;
}

std::span<const Setting> serve_settings() { return table; }

std::string print_setting(const Setting& setting, const ServeSettings& values) {
  return std::visit(Printer{values}, setting.target);
}

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

std::vector<std::string> own_paths(const EffectiveSettings& settings) {
  const S& values = settings.values;
  std::vector<std::string> out;
  for (const std::string& path :
       {values.secrets_folder, values.tls_key, values.signing_key, values.restate_token_file, settings.file})
    if (!path.empty()) out.push_back(path);
  if (!values.artifacts.empty() && !values.artifacts.starts_with("s3:")) out.push_back(values.artifacts);
  return out;
}

std::vector<std::string> own_variables(const ServeSettings& settings) {
  std::vector<std::string> out{"PAWL_"};
  if (!settings.store.empty()) out.emplace_back(libpq_variable_prefix);
  if (!settings.stepfunctions.empty() || settings.artifacts.starts_with("s3:")) out.emplace_back(aws_variable_prefix);
  return out;
}

EffectiveSettings read_settings(const SettingSources& sources) { return Settings(sources).read(); }

std::string print_settings(const EffectiveSettings& settings) {
  ServeSettings values = settings.values;
  values.data = settings.folder.string();
  values.store = without_password(values.store);
  std::string out;
  for (std::size_t i = 0; i < table.size(); ++i) {
    std::string value = print_setting(table[i], values);
    std::string line =
        value.empty() ? fmt::format("# {}:", table[i].name) : fmt::format("{}: {}", table[i].name, value);
    out += fmt::format("{:<40} # {}\n", line, settings.from[i]);
  }
  for (const SettingSection& section : setting_sections) out += section.print(values.rules);
  return out;
}

}  // namespace pawl
