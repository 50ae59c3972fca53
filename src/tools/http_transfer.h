// One HTTP exchange over libcurl: one request, one answer. No redirects, no second try behind the caller's back. The
// URL is sent as it is given; one that is not normalised (http_url.h) is refused.
#pragma once

#include <cstddef>
#include <expected>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/time.h"
#include "tools/http_address.h"
#include "tools/http_url.h"

namespace pawl {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string url;
  HttpHeaders headers;
  std::optional<std::string> body;
  Duration timeout{};
  Duration connect_timeout{};
};

struct HttpAnswer {
  int status = 0;
  HttpHeaders headers;       // lower-case names, in order; one that came several times is there several times
  std::string body;          // with any content-encoding taken off
  std::string redirect_url;  // absolute; empty when the answer redirects nowhere

  const std::string* header(std::string_view name) const;
};

struct HttpError {
  enum class Kind { stopped, bad_url, refused_address, too_large, timed_out, unreachable } kind = Kind::unreachable;
  std::string message;
  bool was_sent = true;  // false: nothing of the request has left, for sure
};

struct HttpRules {
  std::vector<HttpAllow> allow;
  std::size_t body_bytes_max = 0;
  bool proxy_from_environment = false;
};

std::expected<HttpAnswer, HttpError> exchange(const HttpRequest& request, const HttpRules& rules,
                                              const std::stop_token& stop);

}  // namespace pawl
