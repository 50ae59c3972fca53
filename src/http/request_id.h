// A name for each request, in logs and in the X-Request-Id of its response: the client's own, if that is fit to be
// printed, else one made here.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace pawl::http {

inline constexpr std::size_t request_id_chars_max = 128;

// Letters, digits, and . _ - : / + = @ only: nothing that could begin another field of a header or a log line.
bool is_fit_request_id(std::string_view text);

// For one thread. Random, so that nobody learns from two of them how many requests others sent in between.
class RequestIds {
 public:
  // 16 hexadecimal digits.
  std::string next();

 private:
  std::array<unsigned char, 2048> random_;
  std::size_t used_ = random_.size();
};

}  // namespace pawl::http
