#include "tools/http_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/characters.h"

namespace pawl {
namespace {

constexpr int v4_prefix_bits = 96;

constexpr AddressRange v4(int a, int b, int c, int d, int bits) {
  const auto byte = [](int value) { return static_cast<std::uint8_t>(value); };
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, byte(a), byte(b), byte(c), byte(d)}, v4_prefix_bits + bits};
}

// The first three groups are enough for every range below.
constexpr AddressRange v6(int group0, int group1, int group2, int bits) {
  AddressRange range{{}, bits};
  const int groups[] = {group0, group1, group2};
  for (std::size_t i = 0; i < 3; ++i) {
    range.network[2 * i] = static_cast<std::uint8_t>(groups[i] >> 8);
    range.network[2 * i + 1] = static_cast<std::uint8_t>(groups[i] & 0xff);
  }
  return range;
}

constexpr AddressRange any_v4 = v4(0, 0, 0, 0, 0);
constexpr AddressRange nat64 = v6(0x64, 0xff9b, 0, 96);
constexpr AddressRange six_to_four = v6(0x2002, 0, 0, 16);

// IANA's special-purpose registry, and the metadata services that hide among ordinary addresses.
constexpr std::array not_public_v4 = {
    v4(0, 0, 0, 0, 8),         // this network
    v4(10, 0, 0, 0, 8),        // private
    v4(100, 64, 0, 0, 10),     // shared by carriers; 100.100.100.200 is Alibaba's metadata
    v4(127, 0, 0, 0, 8),       // loopback
    v4(168, 63, 129, 16, 32),  // Azure's host agent
    v4(169, 254, 0, 0, 16),    // link-local; 169.254.169.254 is nearly everyone's metadata
    v4(172, 16, 0, 0, 12),     // private
    v4(192, 0, 0, 0, 24),      // protocol assignments; 192.0.0.192 is Oracle's metadata
    v4(192, 0, 2, 0, 24),      // documentation
    v4(192, 88, 99, 0, 24),    // 6to4 relays
    v4(192, 168, 0, 0, 16),    // private
    v4(198, 18, 0, 0, 15),     // benchmarks
    v4(198, 51, 100, 0, 24),   // documentation
    v4(203, 0, 113, 0, 24),    // documentation
    v4(224, 0, 0, 0, 4),       // multicast
    v4(240, 0, 0, 0, 4),       // reserved, broadcast
};

// Of IPv6 only 2000::/3 is given out; loopback, ULA, link-local and multicast all lie outside.
constexpr AddressRange global_v6 = v6(0x2000, 0, 0, 3);
constexpr std::array not_public_v6 = {
    v6(0x2001, 0, 0, 23),      // protocol assignments, Teredo
    v6(0x2001, 0xdb8, 0, 32),  // documentation
    v6(0x3fff, 0, 0, 20),      // documentation
};

IpAddress mapped(const std::uint8_t* four_bytes) {
  IpAddress address = any_v4.network;
  std::copy_n(four_bytes, 4, address.begin() + 12);
  return address;
}

// The IPv4 address that a translator or a relay would go on to.
IpAddress reached_through(const IpAddress& address) {
  if (nat64.contains(address)) return mapped(&address[12]);
  if (six_to_four.contains(address)) return mapped(&address[2]);
  return address;
}

std::optional<int> parse_number(std::string_view text, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > most) return std::nullopt;
  return number;
}

std::expected<HttpAllow, std::string> parse_range(std::string_view text, std::string_view address_text,
                                                  std::string_view bits_text) {
  const auto address = parse_address(address_text);
  if (!address) return std::unexpected(fmt::format("{}: not an address", text));
  const int offset = any_v4.contains(*address) && !address_text.contains(':') ? v4_prefix_bits : 0;
  const auto bits = parse_number(bits_text, 128 - offset);
  if (!bits) return std::unexpected(fmt::format("{}: not a prefix length", text));
  return AddressRange{*address, offset + *bits};
}

}  // namespace

bool AddressRange::contains(const IpAddress& address) const {
  const auto whole = static_cast<std::size_t>(bits / 8);
  if (!std::equal(network.begin(), network.begin() + static_cast<std::ptrdiff_t>(whole), address.begin())) return false;
  const int rest = bits % 8;
  return rest == 0 || ((network[whole] ^ address[whole]) >> (8 - rest)) == 0;
}

std::optional<IpAddress> parse_address(std::string_view text) {
  const std::string terminated(text);
  in_addr four{};
  if (::inet_pton(AF_INET, terminated.c_str(), &four) == 1)
    return mapped(reinterpret_cast<const std::uint8_t*>(&four.s_addr));
  IpAddress six{};
  if (::inet_pton(AF_INET6, terminated.c_str(), six.data()) == 1) return six;
  return std::nullopt;
}

std::optional<IpAddress> address_of(const sockaddr& socket_address) {
  if (socket_address.sa_family == AF_INET) {
    sockaddr_in four;
    std::memcpy(&four, &socket_address, sizeof four);
    return mapped(reinterpret_cast<const std::uint8_t*>(&four.sin_addr.s_addr));
  }
  if (socket_address.sa_family == AF_INET6) {
    sockaddr_in6 six;
    std::memcpy(&six, &socket_address, sizeof six);
    IpAddress address;
    std::copy_n(six.sin6_addr.s6_addr, address.size(), address.begin());
    return address;
  }
  return std::nullopt;
}

std::expected<HttpAllow, std::string> parse_http_allow(std::string_view text) {
  if (const auto slash = text.find('/'); slash != std::string_view::npos)
    return parse_range(text, text.substr(0, slash), text.substr(slash + 1));
  if (const auto address = parse_address(text)) return AddressRange{*address, 128};
  const auto colon = text.rfind(':');
  const auto host = text.substr(0, colon);
  const bool is_bracketed = host.starts_with('[') && host.ends_with(']');
  if (colon == std::string_view::npos || host.empty() || (host.contains(':') && !is_bracketed))
    return std::unexpected(fmt::format("{}: must be an address, a range such as 10.0.0.0/8, or host:port", text));
  const auto port = parse_number(text.substr(colon + 1), 65535);
  if (!port || *port == 0) return std::unexpected(fmt::format("{}: not a port", text));
  return HostPort{.host = lower_case(host), .port = *port};
}

bool is_public(const IpAddress& address) {
  const auto target = reached_through(address);
  const auto holds = [&](const AddressRange& range) { return range.contains(target); };
  if (any_v4.contains(target)) return std::ranges::none_of(not_public_v4, holds);
  return global_v6.contains(target) && std::ranges::none_of(not_public_v6, holds);
}

bool may_connect(const IpAddress& address, const HostPort& server, const std::vector<HttpAllow>& allowed) {
  if (is_public(address)) return true;
  return std::ranges::any_of(allowed, [&](const HttpAllow& entry) {
    if (const auto* range = std::get_if<AddressRange>(&entry))
      return range->contains(address) || range->contains(reached_through(address));
    return std::get<HostPort>(entry) == server;
  });
}

}  // namespace pawl
