// Base64 as RFC 4648 has it, with padding, through OpenSSL.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pawl {

std::string base64_encode(std::string_view bytes);
// Nothing when it is not the one spelling of some bytes.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace pawl
