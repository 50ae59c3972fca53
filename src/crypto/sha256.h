// SHA-256 through OpenSSL, shaped as core wants it.
#pragma once

#include <string_view>

#include "core/chain.h"

namespace pawl {

// Over a followed by b. Thread-safe.
Hash sha256(std::string_view a, std::string_view b = {});

}  // namespace pawl
