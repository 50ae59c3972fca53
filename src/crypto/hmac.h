// Keyed hashes and secrets, through OpenSSL.
#pragma once

#include <string>
#include <string_view>

#include "core/chain.h"

namespace pawl {

// HMAC-SHA-256.
Hash keyed_hash(std::string_view key, std::string_view text);

// In a time that depends on the lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// From the system's generator; throws std::runtime_error when it gives none.
std::string random_bytes(std::size_t count);

}  // namespace pawl
