#include "core/chain.h"

namespace pawl {

std::optional<Hash> Hash::parse(std::string_view hex) {
  Hash out;
  if (hex.size() != 2 * out.bytes.size()) return std::nullopt;
  auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (std::size_t i = 0; i < out.bytes.size(); ++i) {
    int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return out;
}

std::string Hash::hex() const {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (auto byte : bytes) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

Hash stream_genesis(Sha256 sha256, TenantId tenant, std::string_view stream) {
  return sha256("pawl stream v1\n" + tenant.str() + "\n", stream);
}

}  // namespace pawl
