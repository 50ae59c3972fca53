// Which addresses a step may connect to. Checked when the socket is opened, on the address it is opened for, so that
// neither a name that resolves differently the second time nor a redirect gets around it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pawl {

// IPv4 addresses in their mapped form, ::ffff:a.b.c.d, so that there is one kind of address.
using IpAddress = std::array<std::uint8_t, 16>;

struct AddressRange {
  IpAddress network{};
  int bits = 128;

  bool contains(const IpAddress& address) const;
};

// A server by the name and port that URLs give it, wherever that name leads.
struct HostPort {
  std::string host;  // lower case; [::1] in brackets
  int port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

using HttpAllow = std::variant<AddressRange, HostPort>;

// "10.0.0.0/8", "127.0.0.1", "fd00::/8", "intranet.example:8080", "[::1]:80"; or why not.
std::expected<HttpAllow, std::string> parse_http_allow(std::string_view text);

std::optional<IpAddress> address_of(const sockaddr& socket_address);
std::optional<IpAddress> parse_address(std::string_view text);

// Reachable from the whole internet, and meant to be: not private, loopback, link-local, shared (CGNAT), multicast,
// reserved, for documentation, or a cloud's metadata service; nor an IPv6 form that carries such an IPv4 address.
bool is_public(const IpAddress& address);

bool may_connect(const IpAddress& address, const HostPort& server, const std::vector<HttpAllow>& allowed);

}  // namespace pawl
