#include "core/chain.h"

namespace pawl {

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
