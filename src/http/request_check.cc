#include "http/request_check.h"

#include <algorithm>

#include "http/websocket.h"

namespace pawl::http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view without_port(std::string_view authority, std::string_view default_port) {
  if (authority.ends_with(default_port)) authority.remove_suffix(default_port.size());
  return authority;
}

// Whether both are the same name, with the same port; a default port may be left out.
bool is_same_host(std::string_view a, std::string_view b) {
  for (const std::string_view port : {":80", ":443"})
    if (equal_ignoring_case(without_port(a, port), without_port(b, port))) return true;
  return false;
}

}  // namespace

Refusal malformed(std::string_view detail) { return {.status = 400, .code = "REQUEST_MALFORMED", .detail = detail}; }

Refusal too_slow(std::string_view detail) { return {.status = 408, .code = "REQUEST_TOO_SLOW", .detail = detail}; }

Refusal too_many(std::string_view code, std::string_view detail) {
  return {.status = 503, .code = code, .detail = detail, .headers = {{"Retry-After", "1"}}};
}

Refusal too_many_of_client(std::string_view detail) {
  return {.status = 429, .code = "TENANT_LIMIT", .detail = detail, .headers = {{"Retry-After", "1"}}};
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

// The scheme is not compared: behind a proxy that ends TLS, a page of https:// talks to this server over http://.
bool origin_is_allowed(std::string_view origin, std::string_view host, std::span<const std::string> origins) {
  if (std::ranges::any_of(origins, [&](std::string_view one) { return equal_ignoring_case(one, origin); })) return true;
  const auto end = origin.find("://");
  if (end == std::string_view::npos || host.empty()) return false;
  const bool https = equal_ignoring_case(origin.substr(0, end), "https");
  if (!https && !equal_ignoring_case(origin.substr(0, end), "http")) return false;
  const std::string_view default_port = https ? ":443" : ":80";
  return equal_ignoring_case(without_port(origin.substr(end + 3), default_port), without_port(host, default_port));
}

bool host_is_allowed(std::string_view host, std::span<const std::string> hosts) {
  // [::1]:7295 has more colons than the port's.
  const auto colon = host.rfind(':');
  if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos) host = host.substr(0, colon);
  return std::ranges::any_of(hosts, [&](std::string_view one) { return equal_ignoring_case(one, host); });
}

std::optional<Refusal> check_head(Request& request, Protocol protocol, Trust trust) {
  const std::string* host = nullptr;
  const std::string* origin = nullptr;
  bool authorized = false, repeatable = false;
  for (const auto& [name, value] : request.headers) {
    // Two of these would let a proxy and this server see two different requests.
    if (name == "host" && std::exchange(host, &value)) return malformed("there is more than one Host header");
    if (name == "origin" && std::exchange(origin, &value)) return malformed("there is more than one Origin header");
    if (name == "authorization" && std::exchange(authorized, true))
      return malformed("there is more than one Authorization header");
    if (name == "idempotency-key" && std::exchange(repeatable, true))
      return malformed("there is more than one Idempotency-Key header");
    if (name == "transfer-encoding" && (protocol.http_1_0 || !equal_ignoring_case(value, "chunked")))
      return malformed("the only transfer encoding is chunked, in HTTP/1.1");
    if (name == "expect" && !protocol.http_1_0 && !equal_ignoring_case(value, "100-continue"))
      return Refusal{.status = 417, .code = "EXPECTATION_UNKNOWN", .detail = "the only expectation is 100-continue"};
  }
  if (!host && !protocol.http_1_0) return malformed("there is no Host header");
  if (host && !protocol.authority.empty() && !is_same_host(*host, protocol.authority))
    return malformed("the target and the Host header name two different hosts");
  const std::string named(protocol.authority);
  if (!host && !named.empty()) host = &named;
  if (host && !trust.hosts.empty() && !host_is_allowed(*host, trust.hosts))
    return Refusal{.status = 421,
                   .code = "HOST_NOT_ALLOWED",
                   .detail =
                       "this server is not called by the name in the Host header; a server behind a proxy is told "
                       "its name with --host"};
  if (origin && !origin_is_allowed(*origin, host ? *host : "", trust.origins))
    return Refusal{
        .status = 403, .code = "ORIGIN_NOT_ALLOWED", .detail = "pages of this origin may not use this server"};

  request.wants_websocket =
      protocol.upgrade && request.method == Method::get && equal_ignoring_case(request.header("upgrade"), "websocket");
  if (!request.wants_websocket) return std::nullopt;
  if (request.header("sec-websocket-version") != "13")
    return Refusal{.status = 426,
                   .code = "WEBSOCKET_VERSION_UNKNOWN",
                   .detail = "the WebSocket version must be 13",
                   .headers = {{"Sec-WebSocket-Version", "13"}, {"Upgrade", "websocket"}}};
  if (!is_websocket_key(request.header("sec-websocket-key")))
    return malformed("Sec-WebSocket-Key is not 16 bytes in base64");
  return std::nullopt;
}

}  // namespace pawl::http
