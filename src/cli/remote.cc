#include "cli/remote.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>

#include "cli/folder.h"
#include "cli/text.h"

namespace pawl {
namespace {

constexpr long connect_timeout_s = 10;
constexpr long answer_timeout_s = 60;
constexpr std::size_t events_page = 10'000;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// One request; libcurl's own objects end with it.
class Transfer {
 public:
  Transfer(const std::string& url, const std::string& key) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    handle_ = curl_easy_init();
    if (!handle_) throw Stop(exit_internal, "libcurl gives no handle");
    add_header("Authorization: Bearer " + key);
    add_header("Content-Type: application/json");
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_CONNECTTIMEOUT, connect_timeout_s);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_WRITEFUNCTION, +[](char* data, std::size_t, std::size_t size, void* self) -> std::size_t {
      return static_cast<Transfer*>(self)->receive_({data, size}) ? size : 0;
    });
    set(CURLOPT_WRITEDATA, this);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    curl_slist_free_all(headers_);
    curl_easy_cleanup(handle_);
  }

  template <class Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(handle_, option, value);
  }
  void add_header(const std::string& line) { headers_ = curl_slist_append(headers_, line.c_str()); }

  // The HTTP status.
  long perform(const std::string& server, std::function<bool(std::string_view)> receive) {
    receive_ = std::move(receive);
    set(CURLOPT_HTTPHEADER, headers_);
    CURLcode code = curl_easy_perform(handle_);
    if (code != CURLE_OK && code != CURLE_WRITE_ERROR)
      throw Stop(exit_busy, fmt::format("{} does not answer: {}", server, curl_easy_strerror(code)));
    long status = 0;
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

 private:
  CURL* handle_ = nullptr;
  curl_slist* headers_ = nullptr;
  std::function<bool(std::string_view)> receive_;
};

ExitCode exit_code_of(long status) {
  switch (status) {
    case 404: return exit_not_found;
    case 400:
    case 422: return exit_usage;
    case 401:
    case 403:
    case 409: return exit_denied;
    case 429:
    case 503: return exit_busy;
    default: return exit_internal;
  }
}

[[noreturn]] void stop_with(long status, const std::string& body) {
  auto problem = parse_json(body);
  std::string detail = body;
  if (problem && problem->is_object()) {
    const auto& object = problem->get_object();
    if (const Json* text = object.if_contains("detail"); text && text->is_string()) detail = text->get_string();
    if (const Json* where = object.if_contains("where"); where && where->is_string())
      detail = fmt::format("{}: {}", std::string(where->get_string()), detail);
  }
  throw Stop(exit_code_of(status), printable(detail));
}

}  // namespace

void print_decided(const Json& run, std::string_view word) {
  std::string id(run.at("id").as_string()), status(run.at("status").as_string());
  if (word.empty())
    fmt::print("{}\n", boost::json::serialize(boost::json::object{{"run", id}, {"status", status}, {"seq", run.at("seq")}}));
  else
    fmt::print("{} {}; the run is {}\n", word, id, status);
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                 c == '.' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::optional<Remote> Remote::find(const std::string& server_flag, const std::filesystem::path& folder) {
  std::string url = server_flag.empty() ? environment("PAWL_SERVER") : server_flag;
  if (url.empty()) {
    if (!is_locked_by_another(folder)) return std::nullopt;
    auto said = parse_json(first_line(folder / "server.json"));
    if (!said || !said->is_object() || !said->get_object().contains("url")) return std::nullopt;
    url = said->get_object().at("url").get_string();
  }
  while (url.ends_with('/')) url.pop_back();
  std::string key = environment("PAWL_KEY");
  if (key.empty()) key = first_line(folder / "admin.key");
  if (key.empty())
    throw Stop(exit_usage, fmt::format("{} wants a key: set PAWL_KEY, or name the data folder with --data", url));
  return Remote(std::move(url), std::move(key));
}

std::optional<Remote> Remote::find_named(const std::string& server_flag, const std::filesystem::path& folder) {
  return server_flag.empty() && environment("PAWL_SERVER").empty() ? std::nullopt : find(server_flag, folder);
}

Remote Remote::require(const std::string& server_flag, const std::filesystem::path& folder) {
  if (auto remote = find(server_flag, folder)) return std::move(*remote);
  throw Stop(exit_usage,
             fmt::format("this needs a server: start one with pawl serve --data {}, or name one with --server or "
                         "$PAWL_SERVER",
                         shell_word(folder.string())));
}

Json Remote::post(const std::string& path, const Json& body) const {
  return call("POST", path, boost::json::serialize(body));
}

Json Remote::call(const char* method, const std::string& path, const std::string& body) const {
  Transfer transfer(url_ + path, key_);
  transfer.set(CURLOPT_CUSTOMREQUEST, method);
  transfer.set(CURLOPT_TIMEOUT, answer_timeout_s);
  if (!body.empty()) {
    transfer.set(CURLOPT_POSTFIELDS, body.data());
    transfer.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  }
  std::string answer;
  long status = transfer.perform(url_, [&](std::string_view data) {
    answer += data;
    return true;
  });
  if (status >= 400) stop_with(status, answer);
  auto value = parse_json(answer);
  if (!value) throw Stop(exit_internal, fmt::format("{}{} did not answer in JSON: {}", url_, path, value.error()));
  return std::move(*value);
}

void Remote::follow(const std::string& path, const std::function<bool(std::string_view data)>& each) const {
  Transfer transfer(url_ + path, key_);
  std::string rest;
  long status = transfer.perform(url_, [&](std::string_view data) {
    rest += data;
    for (std::size_t end; (end = rest.find('\n')) != rest.npos; rest.erase(0, end + 1)) {
      std::string_view line = std::string_view(rest).substr(0, end);
      if (line.starts_with("data: ") && !each(line.substr(6))) return false;
    }
    return true;
  });
  if (status >= 400) stop_with(status, rest);
}

RunId Remote::find_run(std::string_view text) const {
  if (auto id = RunId::parse(text)) return *id;
  Json found = get("/runs?limit=6&q=" + percent_encode(text));
  std::vector<RunId> matching;
  std::string list;
  for (const Json& item : found.at("items").as_array()) {
    std::string id(item.at("id").as_string());
    bool fits = id.starts_with(text) || std::string_view(id).substr(RunTag::prefix.size() + 1).starts_with(text) ||
                (text.size() >= 6 && id.ends_with(text));
    if (!fits) continue;
    matching.push_back(*RunId::parse(id));
    list += "\n  " + id;
  }
  if (matching.size() == 1) return matching[0];
  throw Stop(exit_not_found, matching.empty() ? fmt::format("there is no run {}", printable(text))
                                              : fmt::format("{} means more than one run:{}", printable(text), list));
}

WholeStream Remote::stream(RunId run) const {
  WholeStream out;
  for (std::string after = "0";;) {
    Json page = get(fmt::format("/runs/{}/events?limit={}&after={}", run.str(), events_page, after));
    for (const Json& item : page.at("items").as_array()) {
      StreamLine line;
      line.seq = out.lines.size() + 1;
      line.text = canonical(item.at("event"));  // as it was hashed
      line.hash = Hash::parse(item.at("hash").as_string()).value_or(Hash{});
      out.lines.push_back(std::move(line));
    }
    const Json& next = page.at("next_cursor");
    if (next.is_null()) return out;
    after = next.as_string();
  }
}

}  // namespace pawl
