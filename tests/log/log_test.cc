#include "log/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "core/json.h"
#include "support/waiting.h"

namespace pawl {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t moment = 1'800'000'000'123;

TEST(LogLine, as_text_has_fields_behind_the_message) {
  EXPECT_EQ(
      log_line(LogFormat::text, moment, LogLevel::warning, "a commit was slow",
               {{"milliseconds", 1204}, {"who", "w-1"}, {"empty", ""}, {"said", "a \"b\"=c"}, {"bad", "x\n2026 info"}}),
      "2027-01-15T08:00:00.123Z warning a commit was slow milliseconds=1204 who=w-1 empty=\"\" "
      "said=\"a \\\"b\\\"=c\" bad=\"x\\n2026 info\"");
}

TEST(LogLine, as_json_is_one_object) {
  std::string line = log_line(LogFormat::json, moment, LogLevel::info, "it \"is\"", {{"n", -5}, {"text", "a\nb"}});
  EXPECT_EQ(line.find('\n'), line.npos);
  auto parsed = parse_json(line);
  ASSERT_TRUE(parsed) << line;
  EXPECT_EQ(parsed->at("time").as_string(), "2027-01-15T08:00:00.123Z");
  EXPECT_EQ(parsed->at("level").as_string(), "info");
  EXPECT_EQ(parsed->at("message").as_string(), "it \"is\"");
  EXPECT_EQ(parsed->at("n").as_int64(), -5);
  EXPECT_EQ(parsed->at("text").as_string(), "a\nb");
}

// A pipe that is read only when the test says so.
class LogTest : public testing::Test {
 protected:
  LogTest() { EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0); }
  ~LogTest() override {
    for (int end : ends_) ::close(end);
  }
  std::string read_some() {
    std::string out(1 << 16, '\0');
    auto got = ::read(ends_[0], out.data(), out.size());
    out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return out;
  }
  // Everything there is until a line holds this.
  std::string read_until(std::string_view mark) {
    std::string out;
    while (out.find(mark) == out.npos) {
      std::string more = read_some();
      if (more.empty()) return out;
      out += more;
    }
    return out;
  }
  int ends_[2] = {-1, -1};
};

TEST_F(LogTest, writes_what_is_grave_enough_in_order) {
  {
    Log log({.level = LogLevel::warning, .file = ends_[1]});
    EXPECT_FALSE(log.wants(LogLevel::info));
    log.info("one");
    log.warning("two");
    log.error("three", {{"n", 3}});
  }
  std::string text = read_some();
  EXPECT_EQ(text.find("one"), text.npos);
  EXPECT_LT(text.find("warning two\n"), text.find("error   three n=3\n"));
  EXPECT_TRUE(text.ends_with("\n"));
}

TEST_F(LogTest, that_nobody_reads_holds_nobody_up_and_says_later_how_much_is_missing) {
  Log log({.file = ends_[1], .lines_max = 64});
  const std::string filler(1000, 'x');
  for (int i = 0; i < 5000; ++i) log.info("line", {{"n", i}, {"filler", filler}});
  EXPECT_GT(log.dropped(), 1000u);
  std::string text;
  std::thread reader([&] { text = read_until("the last one"); });
  while (log.dropped() == 0) std::this_thread::yield();
  log.info("the last one");
  reader.join();
  auto said = text.find("log lines were dropped lines=");
  ASSERT_NE(said, text.npos) << text.substr(0, 300);
  std::uint64_t lines = 0;
  for (auto at = said; at != text.npos; at = text.find("log lines were dropped lines=", at + 1))
    lines += std::stoull(text.substr(at + std::string_view("log lines were dropped lines=").size()));
  EXPECT_EQ(lines, log.dropped());
  std::uint64_t seen = 0;
  for (auto at = text.find(" line n="); at != text.npos; at = text.find(" line n=", at + 1)) ++seen;
  EXPECT_EQ(seen + lines, 5000u) << "every line was written or counted";
}

TEST_F(LogTest, that_nobody_reads_still_closes) {
  auto begin = std::chrono::steady_clock::now();
  {
    Log log({.file = ends_[1]});
    for (int i = 0; i < 5000; ++i) log.info("line", {{"filler", std::string(100, 'x')}});
    log.flush();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, hang_limit);
}

TEST_F(LogTest, flushed_has_left) {
  Log log({.format = LogFormat::json, .file = ends_[1]});
  log.error("the end");
  log.flush();
  EXPECT_NE(read_some().find("\"message\":\"the end\""), std::string::npos);
}

TEST(LogThrottle, lets_a_few_through_in_a_period_and_counts_the_rest) {
  LogThrottle throttle;
  std::chrono::steady_clock::time_point now{1h};
  for (int i = 0; i < LogThrottle::lines_max; ++i) EXPECT_EQ(throttle.admit(now), 0u);
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(throttle.admit(now + 1s));
  EXPECT_EQ(throttle.admit(now + LogThrottle::period), 7u);
  EXPECT_EQ(throttle.admit(now + LogThrottle::period), 0u);
}

}  // namespace
}  // namespace pawl
