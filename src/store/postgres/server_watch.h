// Which of the other servers have died, by what looks at the database find: each live one writes down every second or
// so that it lives.
//
// How long a server was silent is counted from look to look, and a long time between two looks counts as a short one.
// So after an absence of the database, which nobody could write to, each server has time to be seen again before the
// others take it for dead.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace pawl::postgres {

inline constexpr Duration server_gone_after = std::chrono::seconds(5);

class ServerWatch {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // `seen`: "NUMBER:TIME" of each, separated by blanks. Gives those that are taken for dead: each a few times, because
  // what is done about it may fail the first time.
  std::vector<std::uint32_t> look(std::string_view seen, Moment now);

 private:
  struct Server {
    std::int64_t seen_at = 0;  // by the database's clock; only whether it changes matters
    Duration silence{};
    int reports = 0;
  };
  std::map<std::uint32_t, Server> servers_;
  Moment looked_at_{};
};

}  // namespace pawl::postgres
