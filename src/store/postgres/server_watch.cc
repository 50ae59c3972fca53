#include "store/postgres/server_watch.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace pawl::postgres {
namespace {

constexpr Duration counted_between_looks_max = std::chrono::seconds(2);
constexpr Duration report_again_after = std::chrono::seconds(2);
constexpr int reports_max = 5;

template <class Number>
Number take_number(std::string_view& text) {
  Number number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(std::min(static_cast<std::size_t>(end - text.data()) + 1, text.size()));  // and what separates it
  return number;
}

}  // namespace

std::vector<std::uint32_t> ServerWatch::look(std::string_view seen, Moment now) {
  const auto since = std::chrono::duration_cast<Duration>(now - looked_at_);
  const Duration counted = std::min(since, counted_between_looks_max);
  looked_at_ = now;
  std::vector<std::uint32_t> gone;
  std::map<std::uint32_t, Server> before = std::exchange(servers_, {});
  while (!seen.empty()) {
    const auto number = take_number<std::uint32_t>(seen);
    const auto seen_at = take_number<std::int64_t>(seen);
    Server& server = servers_[number];
    server.seen_at = seen_at;
    auto known = before.find(number);
    if (known == before.end() || known->second.seen_at != seen_at) continue;
    server = known->second;
    server.silence += counted;
    if (server.silence < server_gone_after + server.reports * report_again_after || server.reports == reports_max)
      continue;
    ++server.reports;
    gone.push_back(number);
  }
  return gone;
}

}  // namespace pawl::postgres
