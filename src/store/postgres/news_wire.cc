#include "store/postgres/news_wire.h"

#include <fmt/format.h>

#include <charconv>

namespace pawl::postgres {
namespace {

constexpr std::size_t message_bytes_max = 7900;

std::string print(IdBits bits) { return fmt::format("{:016x}{:016x}", bits.high, bits.low); }

template <class Number>
bool read(std::string_view text, Number& number, int base) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

std::optional<IdBits> read_id(std::string_view text) {
  IdBits bits;
  if (text.size() != 32 || !read(text.substr(0, 16), bits.high, 16) || !read(text.substr(16), bits.low, 16)) return {};
  return bits;
}

std::string_view take_word(std::string_view& text) {
  auto word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

void read_word(std::string_view word, News& news) {
  if (word == "ready") news.ready = true;
  if (word == "events") news.events = true;
  if (word.starts_with("t:"))
    if (auto tenant = read_id(word.substr(2))) news.tenants.push_back({*tenant});
  if (word.starts_with("r:") && word.size() == 2 + 32 + 1 + 32) {
    auto tenant = read_id(word.substr(2, 32)), run = read_id(word.substr(35));
    if (tenant && run) news.runs.push_back({{*tenant}, *run});
  }
}

}  // namespace

std::vector<std::string> print_news(const News& news, std::uint32_t from, std::optional<std::uint32_t> to) {
  std::string header = fmt::format("{} {}", from, to ? std::to_string(*to) : "*");
  std::vector<std::string> messages{header};
  auto add = [&](const std::string& word) {
    if (messages.back().size() + 1 + word.size() > message_bytes_max) messages.push_back(header);
    messages.back() += " " + word;
  };
  if (news.ready) add("ready");
  if (news.events) add("events");
  for (TenantId tenant : news.tenants) add("t:" + print(tenant.bits));
  for (StreamKey run : news.runs) add("r:" + print(run.tenant.bits) + ":" + print(run.stream));
  return messages;
}

void read_news(std::string_view message, std::uint32_t me, News& news) {
  std::uint32_t from = 0, to = 0;
  auto sender = take_word(message), receiver = take_word(message);
  if (!read(sender, from, 10) || from == me) return;
  if (receiver != "*" && (!read(receiver, to, 10) || to != me)) return;
  while (!message.empty()) read_word(take_word(message), news);
}

}  // namespace pawl::postgres
