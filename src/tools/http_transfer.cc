#include "tools/http_transfer.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>

#include "core/characters.h"
#include "process/descriptor.h"

namespace pawl {
namespace {

constexpr std::size_t header_bytes_max = 64 * 1024;
constexpr int poll_ms_max = 1000;

struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const auto first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

// What libcurl calls back into, while one exchange runs.
class Transfer {
 public:
  Transfer(const HttpRequest& request, const HttpRules& rules, HostPort server)
      : request_(request),
        rules_(rules),
        server_(std::move(server)),
        easy_(curl_easy_init()),
        multi_(curl_multi_init()) {
    if (!easy_ || !multi_) throw std::bad_alloc();
  }
  // An easy handle must leave its multi handle before either goes.
  ~Transfer() { curl_multi_remove_handle(multi_.get(), easy_.get()); }
  Transfer(const Transfer&) = delete;

  std::expected<HttpAnswer, HttpError> perform(const std::stop_token& stop);

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(easy_.get(), option, value);
  }
  void set_connection();
  void set_content();
  void add_header(const std::string& line) {
    auto* longer = curl_slist_append(header_lines_.get(), line.c_str());
    if (!longer) throw std::bad_alloc();
    static_cast<void>(header_lines_.release());
    header_lines_.reset(longer);
  }
  CURLcode drive(const std::stop_token& stop);
  std::unexpected<HttpError> explain(CURLcode code) const;
  HttpError classify(CURLcode code) const;

  static curl_socket_t open_socket(void* self, curlsocktype, curl_sockaddr* address);
  static std::size_t take_header(char* data, std::size_t, std::size_t bytes, void* self);
  static std::size_t take_body(char* data, std::size_t, std::size_t bytes, void* self);

  const HttpRequest& request_;
  const HttpRules& rules_;
  const HostPort server_;
  HttpAnswer answer_;
  std::size_t header_bytes_ = 0;
  int refused_addresses_ = 0;
  int admitted_addresses_ = 0;
  bool is_too_large_ = false;
  bool is_stopped_ = false;
  char error_text_[CURL_ERROR_SIZE] = "";
  std::unique_ptr<curl_slist, ListDeleter> header_lines_;
  std::unique_ptr<CURL, EasyDeleter> easy_;
  std::unique_ptr<CURLM, MultiDeleter> multi_;
};

curl_socket_t Transfer::open_socket(void* self, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(self);
  const auto ip = address_of(address->addr);
  if (!ip || !may_connect(*ip, transfer.server_, transfer.rules_.allow)) {
    ++transfer.refused_addresses_;
    return CURL_SOCKET_BAD;
  }
  ++transfer.admitted_addresses_;
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

std::size_t Transfer::take_header(char* data, std::size_t, std::size_t bytes, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  transfer.header_bytes_ += bytes;
  if (transfer.header_bytes_ > header_bytes_max) {
    transfer.is_too_large_ = true;
    return 0;
  }
  const std::string_view line(data, bytes);
  if (line.starts_with("HTTP/")) {
    transfer.answer_.headers.clear();  // what came before was a 100 Continue or a proxy's answer
  } else if (const auto colon = line.find(':'); colon != std::string_view::npos && colon > 0) {
    transfer.answer_.headers.emplace_back(lower_case(trimmed(line.substr(0, colon))), trimmed(line.substr(colon + 1)));
  }
  return bytes;
}

std::size_t Transfer::take_body(char* data, std::size_t, std::size_t bytes, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.answer_.body.size() + bytes > transfer.rules_.body_bytes_max) {
    transfer.is_too_large_ = true;
    return 0;
  }
  transfer.answer_.body.append(data, bytes);
  return bytes;
}

void Transfer::set_connection() {
  set(CURLOPT_ERRORBUFFER, error_text_);
  set(CURLOPT_NOSIGNAL, 1L);
  // A resolver that hangs must not hold up a stop; its thread ends by itself.
  set(CURLOPT_QUICK_EXIT, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  if (!rules_.proxy_from_environment) set(CURLOPT_PROXY, "");
  // libcurl sends a request again when a connection it kept turns out dead. Only the engine decides to repeat one.
  set(CURLOPT_FRESH_CONNECT, 1L);
  set(CURLOPT_FORBID_REUSE, 1L);
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request_.timeout.count()));
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request_.connect_timeout.count()));
  set(CURLOPT_OPENSOCKETFUNCTION, &Transfer::open_socket);
  set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(this));
}

void Transfer::set_content() {
  set(CURLOPT_URL, request_.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);  // it is normalised
  set(CURLOPT_USERAGENT, "pawl");
  set(CURLOPT_ACCEPT_ENCODING, "");
  set(CURLOPT_HEADERFUNCTION, &Transfer::take_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &Transfer::take_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  for (const auto& [name, value] : request_.headers)
    add_header(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
  add_header("Expect:");  // or libcurl waits a second for servers that do not know 100 Continue
  if (request_.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (request_.body || request_.method == "POST" || request_.method == "PUT" || request_.method == "PATCH") {
    const std::string_view body = request_.body ? std::string_view(*request_.body) : std::string_view("");
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    set(CURLOPT_POSTFIELDS, body.data());
    if (!request_.body) add_header("Content-Type:");  // libcurl would call it a form
  }
  if (request_.method != "HEAD") set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  set(CURLOPT_HTTPHEADER, header_lines_.get());
}

CURLcode Transfer::drive(const std::stop_token& stop) {
  const StopEvent stop_event(stop);
  for (;;) {
    int running = 0;
    if (curl_multi_perform(multi_.get(), &running) != CURLM_OK) return CURLE_OUT_OF_MEMORY;
    if (running == 0) break;
    curl_waitfd stop_wait{.fd = stop_event.fd(), .events = CURL_WAIT_POLLIN, .revents = 0};
    curl_multi_poll(multi_.get(), &stop_wait, 1, poll_ms_max, nullptr);
    if (stop.stop_requested()) {
      is_stopped_ = true;
      return CURLE_ABORTED_BY_CALLBACK;
    }
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left))
    if (message->msg == CURLMSG_DONE) return message->data.result;
  return CURLE_OK;
}

std::expected<HttpAnswer, HttpError> Transfer::perform(const std::stop_token& stop) {
  set_connection();
  set_content();
  curl_multi_add_handle(multi_.get(), easy_.get());
  if (const CURLcode code = drive(stop); code != CURLE_OK) return explain(code);
  long status = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
  answer_.status = static_cast<int>(status);
  char* redirect = nullptr;
  curl_easy_getinfo(easy_.get(), CURLINFO_REDIRECT_URL, &redirect);
  if (redirect) answer_.redirect_url = redirect;
  return std::move(answer_);
}

std::unexpected<HttpError> Transfer::explain(CURLcode code) const {
  HttpError error = classify(code);
  // The size of what was sent so far; a connection that was not made, or not trusted, has been sent nothing.
  long sent_bytes = 0;
  error.was_sent = curl_easy_getinfo(easy_.get(), CURLINFO_REQUEST_SIZE, &sent_bytes) != CURLE_OK || sent_bytes > 0;
  return std::unexpected(std::move(error));
}

HttpError Transfer::classify(CURLcode code) const {
  const std::string text = error_text_[0] ? error_text_ : curl_easy_strerror(code);
  if (is_stopped_) return {HttpError::Kind::stopped, "stopped"};
  if (is_too_large_) return {HttpError::Kind::too_large, "the answer is too large"};
  // A name with several addresses is refused only when none of them may be reached.
  if (refused_addresses_ > 0 && admitted_addresses_ == 0)
    return {HttpError::Kind::refused_address, "it is not a public address"};
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return {HttpError::Kind::timed_out, text};
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return {HttpError::Kind::bad_url, text};
    default:
      return {HttpError::Kind::unreachable, text};
  }
}

}  // namespace

const std::string* HttpAnswer::header(std::string_view name) const {
  const auto it = std::ranges::find_if(headers, [&](const auto& entry) { return entry.first == name; });
  return it == headers.end() ? nullptr : &it->second;
}

std::expected<HttpAnswer, HttpError> exchange(const HttpRequest& request, const HttpRules& rules,
                                              const std::stop_token& stop) {
  const auto refused = [](std::string why) {
    return std::unexpected(HttpError{HttpError::Kind::bad_url, std::move(why), false});
  };
  const auto normal = normalize_url(request.url);
  if (!normal) return refused("the URL " + normal.error());
  if (*normal != request.url) return refused("the URL leads to another place than it seems to");
  const auto origin = origin_of(request.url);
  if (!origin) return refused("not an http or https URL");
  return Transfer(request, rules, origin->server).perform(stop);
}

}  // namespace pawl
