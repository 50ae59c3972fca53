// What a request's head must fulfil before its body is read. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/message.h"

namespace pawl::http {

struct Refusal {
  int status;
  std::string_view code;
  std::string_view detail;
  Headers headers = {};
};

Refusal malformed(std::string_view detail);
Refusal too_slow(std::string_view detail);
Refusal too_many(std::string_view code, std::string_view detail);  // for now: come back
Refusal too_many_of_client(std::string_view detail);               // the same, of this client

struct Protocol {
  bool http_1_0 = false;
  std::string_view authority = {};  // of a target like http://host/path; empty: the target names none
  bool upgrade = false;             // an Upgrade header, and a Connection header that says so
};

// Whom to trust; see ServerOptions.
struct Trust {
  std::span<const std::string> origins;
  std::span<const std::string> hosts;  // empty: any
};

// Sets Request::wants_websocket. A target that names a host is treated as a Host header: it must be one of the allowed
// ones in every version of HTTP, and when there is a Host header too, both must name the same.
std::optional<Refusal> check_head(Request& request, Protocol protocol, Trust trust);

// Whether `host`, which is the Host header, names one of these, with whatever port.
bool host_is_allowed(std::string_view host, std::span<const std::string> hosts);

// Whether a page of `origin` may send requests to `host`, which is the Host header.
bool origin_is_allowed(std::string_view origin, std::string_view host, std::span<const std::string> origins);

bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace pawl::http
