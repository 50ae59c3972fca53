// Base64 with padding, as RFC 4648 section 4 has it, through OpenSSL.
#pragma once

#include <string>
#include <string_view>

namespace pawl {

std::string base64(std::string_view bytes);

}  // namespace pawl
