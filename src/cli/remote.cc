#include "cli/remote.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "cli/settings.h"
#include "cli/text.h"

namespace pawl {
namespace {

constexpr long connect_timeout_s = 10;
// The server sends something every 15 seconds, if only a few bytes to say that it is there.
constexpr auto silence_max = std::chrono::seconds(45);
constexpr int poll_ms_max = 1000;
constexpr std::size_t events_page = 10'000;

std::string first_line(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

struct Address {
  std::string url;
  std::string public_key;        // of a server with TLS
  bool keeps_elsewhere = false;  // in a database: what the folder holds is not what the server has
};

// Empty when no server has this folder just now. One that was killed leaves its address behind: the lock tells.
Address address_of_server_in(const std::filesystem::path& folder) {
  if (!is_locked_by_another(folder)) return {};
  auto said = parse_json(first_line(folder / "server.json"));
  if (!said || !said->is_object()) return {};
  const Json* url = said->get_object().if_contains("url");
  const Json* pid = said->get_object().if_contains("pid");
  if (!url || !url->is_string() || !pid || boost::json::serialize(*pid) != first_line(folder / "lock")) return {};
  const Json* public_key = said->get_object().if_contains("public_key");
  const Json* elsewhere = said->get_object().if_contains("keeps_elsewhere");
  return {std::string(url->get_string()),
          public_key && public_key->is_string() ? std::string(public_key->get_string()) : "",
          elsewhere && elsewhere->is_bool() && elsewhere->get_bool()};
}

// One request; libcurl's own objects end with it.
class Transfer {
 public:
  // `public_key`: what the server is known by, instead of its certificate's names and whoever signed it.
  Transfer(const std::string& url, const std::string& key, const std::string& public_key) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    handle_ = curl_easy_init();
    multi_ = curl_multi_init();
    if (!handle_ || !multi_) throw Stop(exit_internal, "libcurl gives no handle");
    add_header("Authorization: Bearer " + key);
    add_header("Content-Type: application/json");
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_CONNECTTIMEOUT, connect_timeout_s);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    if (!public_key.empty()) {
      set(CURLOPT_SSL_VERIFYPEER, 0L);
      set(CURLOPT_SSL_VERIFYHOST, 0L);
      set(CURLOPT_PINNEDPUBLICKEY, public_key.c_str());
    } else if (std::string ca = environment_variable("PAWL_CA").value_or(""); !ca.empty()) {
      set(CURLOPT_CAINFO, ca.c_str());
    }
    set(
        CURLOPT_WRITEFUNCTION, +[](char* data, std::size_t, std::size_t size, void* self) -> std::size_t {
          return static_cast<Transfer*>(self)->take({data, size}) ? size : 0;
        });
    set(CURLOPT_WRITEDATA, this);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    curl_multi_remove_handle(multi_, handle_);
    curl_slist_free_all(headers_);
    curl_easy_cleanup(handle_);
    curl_multi_cleanup(multi_);
  }

  template <class Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(handle_, option, value);
  }
  void add_header(const std::string& line) { headers_ = curl_slist_append(headers_, line.c_str()); }

  // Called once, when the head of an answer that is not a refusal is there.
  void when_opened(std::function<void()> opened) {
    opened_ = std::move(opened);
    set(
        CURLOPT_HEADERFUNCTION, +[](char* data, std::size_t, std::size_t size, void* self) -> std::size_t {
          auto* transfer = static_cast<Transfer*>(self);
          if (std::string_view(data, size) == "\r\n") transfer->is_open_ = transfer->status() / 100 == 2;
          return size;
        });
    set(CURLOPT_HEADERDATA, this);
  }
  bool is_open() const { return is_open_; }
  // Not libcurl's least speed: by that, a server that says a few bytes now and then does not answer.
  void end_when_silent(std::chrono::seconds limit) { silence_max_ = limit; }

  // The HTTP status; 0 when it was stopped.
  long perform(const std::string& server, std::function<void(std::string_view)> receive,
               const std::stop_token& stop = {}) {
    receive_ = std::move(receive);
    set(CURLOPT_HTTPHEADER, headers_);
    curl_multi_add_handle(multi_, handle_);
    std::stop_callback wake(stop, [&] { curl_multi_wakeup(multi_); });
    for (int running = 1; running > 0 && !stop.stop_requested();) {
      curl_multi_perform(multi_, &running);
      if (failure_) std::rethrow_exception(failure_);
      if (is_open_ && opened_) std::exchange(opened_, {})();
      if (running > 0) curl_multi_poll(multi_, nullptr, 0, poll_ms_max, nullptr);
      if (silence_max_ && std::chrono::steady_clock::now() - heard_at_ > *silence_max_)
        throw Stop(exit_busy,
                   fmt::format("{} does not answer: nothing came for {} seconds", server, silence_max_->count()));
    }
    if (stop.stop_requested()) return 0;
    int left = 0;
    const CURLMsg* message = curl_multi_info_read(multi_, &left);
    CURLcode code = message ? message->data.result : CURLE_OK;
    // These do not go away by waiting.
    if (code == CURLE_PEER_FAILED_VERIFICATION)
      throw Stop(
          exit_usage,
          fmt::format("the certificate of {} cannot be trusted: it is for another name, has expired, or is signed by "
                      "nobody who is known here; PAWL_CA names a file with those to trust",
                      server));
    if (code == CURLE_SSL_CACERT_BADFILE)
      throw Stop(exit_usage, fmt::format("PAWL_CA: {} holds no certificates",
                                         printable(environment_variable("PAWL_CA").value_or(""))));
    if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_URL_MALFORMAT)
      throw Stop(exit_usage,
                 fmt::format("{} is not a server's address like https://pawl.example:7295", printable(server)));
    if (code != CURLE_OK)
      throw Stop(exit_busy, fmt::format("{} does not answer: {}", server, curl_easy_strerror(code)));
    return status();
  }

 private:
  long status() const {
    long status = 0;
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  // Nothing may be thrown through libcurl.
  bool take(std::string_view data) try {
    heard_at_ = std::chrono::steady_clock::now();
    receive_(data);
    return true;
  } catch (...) {
    failure_ = std::current_exception();
    return false;
  }

  CURL* handle_ = nullptr;
  CURLM* multi_ = nullptr;
  curl_slist* headers_ = nullptr;
  bool is_open_ = false;
  std::optional<std::chrono::seconds> silence_max_;
  std::chrono::steady_clock::time_point heard_at_ = std::chrono::steady_clock::now();
  std::function<void()> opened_;
  std::function<void(std::string_view)> receive_;
  std::exception_ptr failure_;
};

ExitCode exit_code_of(long status) {
  switch (status) {
    case 404:
    case 410:
      return exit_not_found;
    case 400:
    case 422:
      return exit_usage;
    case 401:
    case 403:
    case 409:
      return exit_denied;
    case 429:
    case 503:
      return exit_busy;
    default:
      return exit_internal;
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
    fmt::print("{}\n",
               boost::json::serialize(boost::json::object{{"run", id}, {"status", status}, {"seq", run.at("seq")}}));
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
  Remote out;
  out.folder_ = folder;
  out.url_ = server_flag.empty() ? environment_variable("PAWL_SERVER").value_or("") : server_flag;
  out.by_folder_ = out.url_.empty();
  if (out.by_folder_) out.look_again();
  if (out.url_.empty()) return std::nullopt;
  while (out.url_.ends_with('/')) out.url_.pop_back();
  out.key_ = environment_variable("PAWL_KEY").value_or("");
  out.key_by_folder_ = out.key_.empty();
  if (out.key_by_folder_) out.key_ = first_line(folder / "admin.key");
  if (out.key_.empty())
    throw Stop(exit_usage, fmt::format("{} wants a key: set PAWL_KEY, or name the data folder with --data", out.url_));
  return out;
}

void Remote::look_again() {
  if (!by_folder_) return;
  if (Address found = address_of_server_in(folder_); !found.url.empty()) {
    url_ = std::move(found.url);
    public_key_ = std::move(found.public_key);
  }
}

Location Remote::location() const {
  Location out = location_of(folder_);
  out.is_served = true;
  if (by_folder_) return out;
  out.server = url_;
  std::string named = "--server " + shell_word(url_);
  out.flags = key_by_folder_ ? named + " " + out.flags : named;
  return out;
}

std::optional<Remote> Remote::find_named(const std::string& server_flag, const std::filesystem::path& folder) {
  bool is_named = !server_flag.empty() || !environment_variable("PAWL_SERVER").value_or("").empty();
  return is_named || address_of_server_in(folder).keeps_elsewhere ? find(server_flag, folder) : std::nullopt;
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

Json Remote::get_all(const std::string& path) const {
  Json whole = get(path);
  std::string with_cursor = path + (path.contains('?') ? "&cursor=" : "?cursor=");
  for (Json* next = &whole.at("next_cursor"); !next->is_null();) {
    Json page = get(with_cursor + percent_encode(next->as_string()));
    for (Json& item : page.at("items").as_array()) whole.at("items").as_array().push_back(std::move(item));
    *next = page.at("next_cursor");
  }
  return whole;
}

Json Remote::patch(const std::string& path, const Json& body) const {
  return call("PATCH", path, boost::json::serialize(body));
}

Json Remote::post_once(const std::string& path, const Json& body, const std::string& idempotency_key) const {
  return call("POST", path, boost::json::serialize(body), "Idempotency-Key: " + idempotency_key);
}

std::string Remote::send(const char* method, const std::string& path, const std::string& body,
                         std::string_view header) const {
  auto [status, answer] =
      exchange(method, path, body, header.empty() ? std::vector<std::string>{} : std::vector{std::string(header)});
  if (status >= 400) stop_with(status, answer);
  return std::move(answer);
}

Remote::Exchange Remote::exchange(const char* method, const std::string& path, const std::string& body,
                                  const std::vector<std::string>& headers) const {
  Transfer transfer(url_ + path, key_, public_key_);
  transfer.set(CURLOPT_CUSTOMREQUEST, method);
  transfer.set(CURLOPT_TIMEOUT_MS, static_cast<long>(limit_.count()));
  for (const std::string& header : headers) transfer.add_header(header);
  if (!body.empty()) {
    transfer.set(CURLOPT_POSTFIELDS, body.data());
    transfer.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  }
  std::string answer;
  const long status = transfer.perform(url_, [&](std::string_view data) { answer += data; });
  return {status, std::move(answer)};
}

Json Remote::call(const char* method, const std::string& path, const std::string& body, std::string_view header) const {
  auto value = parse_json(send(method, path, body, header));
  if (!value) throw Stop(exit_internal, fmt::format("{}{} did not answer in JSON: {}", url_, path, value.error()));
  return std::move(*value);
}

void Remote::follow(const std::string& path, const Listener& listener, const std::stop_token& stop) const {
  Transfer transfer(url_ + path, key_, public_key_);
  transfer.end_when_silent(silence_max);
  transfer.when_opened(listener.opened);
  std::string rest;
  // An event with a name is the server's word on the stream itself; what there is to do follows when it is opened
  // again.
  bool is_named = false;
  std::string id;
  auto take = [&](std::string_view data) {
    rest += data;
    if (!transfer.is_open()) return;  // a refusal
    std::size_t begin = 0;
    for (std::size_t end; (end = rest.find('\n', begin)) != rest.npos; begin = end + 1) {
      std::string_view line = std::string_view(rest).substr(begin, end - begin);
      if (line.empty() || line.starts_with("event: ")) is_named = !line.empty();
      if (!is_named && line.starts_with("data: ")) listener.message(line.substr(6));
      if (line.starts_with("id: ")) id = line.substr(4);
      // All up to there has arrived. A server that has nothing else to say still says how far the journal is.
      if (line.empty() && !id.empty() && listener.position) listener.position(std::exchange(id, {}));
    }
    rest.erase(0, begin);
  };
  long status = transfer.perform(url_, take, stop);
  if (status >= 400) stop_with(status, rest);
}

RunId Remote::find_run(std::string_view text) const {
  if (auto id = RunId::parse(text)) return *id;
  // Of a task, the run that carries it out.
  if (TaskId::parse(text)) {
    Json task = get("/tasks/" + std::string(text));
    if (auto id = task.at("run_id").is_string() ? RunId::parse(task.at("run_id").as_string()) : std::nullopt)
      return *id;
    throw Stop(exit_not_found, fmt::format("the task {} has no run yet: pawl task run {}", text, text));
  }
  const bool is_receipt = ReceiptId::parse(text).has_value();
  if (is_receipt || ApprovalId::parse(text)) {
    Json named = get((is_receipt ? "/receipts/" : "/approvals/") + std::string(text));
    return RunId::parse(named.at(is_receipt ? "run" : "run_id").as_string()).value_or(RunId{});
  }
  // What `q` finds also has the text elsewhere, and the server looks at so many runs at a time.
  constexpr std::size_t named_max = 6;
  std::vector<RunId> matching;
  std::string list;
  std::string cursor;
  do {
    Json page = get("/runs?limit=500&q=" + percent_encode(text) + cursor);
    for (const Json& item : page.at("items").as_array()) {
      std::string id(item.at("id").as_string());
      bool fits = id.starts_with(text) || std::string_view(id).substr(RunTag::prefix.size() + 1).starts_with(text) ||
                  (text.size() >= 6 && id.ends_with(text));
      if (!fits || matching.size() == named_max) continue;
      matching.push_back(*RunId::parse(id));
      list += "\n  " + id;
    }
    const Json& next = page.at("next_cursor");
    cursor = next.is_null() ? "" : "&cursor=" + std::string(next.as_string());
  } while (!cursor.empty() && matching.size() < named_max);
  if (matching.size() == 1) return matching[0];
  throw Stop(exit_not_found, matching.empty() ? fmt::format("there is no run {}", printable(text))
                                              : fmt::format("{} means more than one run:{}", printable(text), list));
}

std::string Remote::find_task(const std::string& text) const {
  if (text.empty()) throw Stop(exit_usage, "say which task: its id, or the end of it");
  if (TaskId::parse(text)) return text;
  constexpr std::size_t chars_min = 4;
  if (text.size() < chars_min) throw Stop(exit_usage, printable(text) + " is too short for the end of a task's id");
  std::string found;
  Json all = get_all("/tasks?limit=200");
  for (const Json& task : all.at("items").as_array()) {
    std::string id(task.at("id").as_string());
    if (!id.ends_with(text)) continue;
    if (!found.empty()) throw Stop(exit_usage, fmt::format("{} is the end of {} and of {}", text, found, id));
    found = id;
  }
  if (found.empty()) throw Stop(exit_not_found, "there is no such task: " + printable(text));
  return found;
}

WholeStream Remote::stream(RunId run, std::uint64_t from) const {
  WholeStream out;
  for (std::string after = std::to_string(from);;) {
    Json page = get(fmt::format("/runs/{}/events?raw=true&limit={}&after={}", run.str(), events_page, after));
    for (const Json& item : page.at("items").as_array()) {
      StreamLine line;
      line.seq = from + out.lines.size() + 1;
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
