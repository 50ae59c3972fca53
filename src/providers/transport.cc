#include "providers/transport.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "core/invariant.h"

namespace pawl::providers {

struct Transport::Transfer {
  const Request& request;
  Response& response;
  std::size_t body_bytes_max;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl{curl_easy_init(), curl_easy_cleanup};
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers{nullptr, curl_slist_free_all};
  std::string signer;
};

Transport::Transport(TransportOptions options) : options_(std::move(options)) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  multi_ = curl_multi_init();
  invariant(multi_ != nullptr, "libcurl has no memory");
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.at_once_max));
}

Transport::~Transport() { curl_multi_cleanup(multi_); }

void Transport::begin(Transfer& transfer) {
  CURL* curl = transfer.curl.get();
  auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  const Request& request = transfer.request;
  curl_slist* lines = nullptr;
  // Nobody here waits for a "100 Continue". A signature would cover this line although it is not sent.
  if (request.region.empty()) lines = curl_slist_append(lines, "expect:");
  for (const std::string& line : request.headers) lines = curl_slist_append(lines, line.c_str());
  if (!request.region.empty() && !options_.access.session_token.empty())
    lines = curl_slist_append(lines, ("x-amz-security-token: " + options_.access.session_token).c_str());
  transfer.headers.reset(lines);
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method != "GET") {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data());
  }
  set(CURLOPT_HTTPHEADER, lines);
  if (!request.region.empty()) {
    transfer.signer = fmt::format("aws:amz:{}:{}", request.region, request.service);
    set(CURLOPT_AWS_SIGV4, transfer.signer.c_str());
    set(CURLOPT_USERNAME, options_.access.access_key.c_str());
    set(CURLOPT_PASSWORD, options_.access.secret_key.c_str());
  }
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
  set(CURLOPT_PRIVATE, &transfer);
  set(CURLOPT_WRITEDATA, &transfer);
  set(
      CURLOPT_WRITEFUNCTION, +[](char* data, std::size_t, std::size_t size, void* to) -> std::size_t {
        auto& one = *static_cast<Transfer*>(to);
        if (one.response.body.size() + size > one.body_bytes_max) return 0;
        one.response.body.append(data, size);
        return size;
      });
  curl_multi_add_handle(multi_, curl);
}

void Transport::end(Transfer& transfer, int code) {
  if (code == CURLE_OK) {
    long status = 0;
    curl_easy_getinfo(transfer.curl.get(), CURLINFO_RESPONSE_CODE, &status);
    transfer.response.status = static_cast<int>(status);
  } else {
    transfer.response.body.clear();
    transfer.response.problem = curl_easy_strerror(static_cast<CURLcode>(code));
  }
  curl_multi_remove_handle(multi_, transfer.curl.get());
}

std::vector<Response> Transport::exchange(const std::vector<Request>& requests) {
  std::vector<Response> out(requests.size());
  std::deque<Transfer> open;  // addresses stay
  std::size_t next = 0;
  std::size_t under_way = 0;
  while (next < requests.size() || under_way > 0) {
    if (stop_.stop_requested()) break;
    for (; next < requests.size() && under_way < options_.at_once_max; ++next, ++under_way)
      begin(open.emplace_back(requests[next], out[next], options_.body_bytes_max));
    int running = 0;
    curl_multi_perform(multi_, &running);
    int left = 0;
    bool any = false;
    while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      char* found = nullptr;
      const CURLcode code = message->data.result;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &found);
      end(*reinterpret_cast<Transfer*>(found), code);
      --under_way;
      any = true;
    }
    if (!any && under_way > 0) curl_multi_poll(multi_, nullptr, 0, 200, nullptr);
  }
  for (Transfer& each : open)
    if (each.response.status == 0 && each.response.problem.empty()) {
      curl_multi_remove_handle(multi_, each.curl.get());
      each.response.problem = "pawl stopped before there was an answer";
    }
  for (Response& each : out)
    if (each.status == 0 && each.problem.empty()) each.problem = "pawl stopped before it was asked";
  return out;
}

Response Transport::exchange(Request request) {
  std::vector<Request> one;
  one.push_back(std::move(request));
  return std::move(exchange(one).front());
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

bool is_base_url(std::string_view text) {
  const bool has_scheme = text.starts_with("http://") || text.starts_with("https://");
  return has_scheme && text.size() > text.find("//") + 2 &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f && c != '@' && c != '#' && c != '?'; });
}

}  // namespace pawl::providers
