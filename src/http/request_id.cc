#include "http/request_id.h"

#include <openssl/rand.h>

#include <algorithm>
#include <stdexcept>

namespace pawl::http {

bool is_fit_request_id(std::string_view text) {
  constexpr std::string_view signs = "._-:/+=@";
  return !text.empty() && text.size() <= request_id_chars_max && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || signs.contains(c);
  });
}

std::string RequestIds::next() {
  if (used_ == random_.size()) {
    if (RAND_bytes(random_.data(), static_cast<int>(random_.size())) != 1)
      throw std::runtime_error("the system gives no random numbers");
    used_ = 0;
  }
  std::string out;
  for (std::size_t i = 0; i < 8; ++i) {
    const unsigned byte = random_[used_++];
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

}  // namespace pawl::http
