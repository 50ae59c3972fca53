#include "http/request_id.h"

#include <algorithm>
#include <random>

namespace pawl::http {

bool is_fit_request_id(std::string_view text) {
  constexpr std::string_view signs = "._-:/+=@";
  return !text.empty() && text.size() <= request_id_chars_max && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || signs.contains(c);
  });
}

RequestIds::RequestIds() {
  std::random_device device;
  state_ = std::uint64_t{device()} << 32 | device();
}

std::string RequestIds::next() {
  // splitmix64, which comes to no number twice before it has come to all of them.
  std::uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  x ^= x >> 31;
  std::string out(16, '0');
  for (char& digit : out) {
    digit = "0123456789abcdef"[x & 15];
    x >>= 4;
  }
  return out;
}

}  // namespace pawl::http
