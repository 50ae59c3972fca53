// What servers tell each other through NOTIFY, whose messages are short texts.
//
//   message := from ' ' (to | '*') (' ' word)*
//   word    := 'ready' | 'events' | 't:' tenant | 'r:' tenant ':' run            ids as 32 hexadecimal digits
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/shared_store.h"

namespace pawl::postgres {

// As many messages as it takes: one holds less than 8000 bytes.
std::vector<std::string> print_news(const News& news, std::uint32_t from, std::optional<std::uint32_t> to);
// Adds what it says to `news`, if it is for server `me` and not its own. What cannot be read is passed over.
void read_news(std::string_view message, std::uint32_t me, News& news);

}  // namespace pawl::postgres
