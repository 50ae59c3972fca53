// Structured log lines: what happened, said once, with its ids as fields. Never a key, an input or an output.
//
//   log.warning("a commit was slow", {{"milliseconds", 1204}, {"frames", 3}});
//   text  2026-11-16T07:29:59.885Z warning a commit was slow milliseconds=1204 frames=3
//   json  {"time":"2026-11-16T07:29:59.885Z","level":"warning","message":"a commit was
//   slow","milliseconds":1204,"frames":3}
//
// Any thread may write, and none ever waits: lines are queued for one thread that writes them. When whoever reads them
// does not keep up, the oldest are dropped and counted, and the count is the first line once there is room again.
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/names.h"

namespace pawl {

enum class LogLevel { info, warning, error };
enum class LogFormat { text, json };

template <>
inline constexpr std::array enum_names<LogLevel>{std::string_view("info"), std::string_view("warning"),
                                                 std::string_view("error")};
template <>
inline constexpr std::array enum_names<LogFormat>{std::string_view("text"), std::string_view("json")};

struct LogField {
  std::string_view name;  // a literal
  std::variant<std::string, std::int64_t> value;

  LogField(std::string_view key, std::string_view text) : name(key), value(std::string(text)) {}
  LogField(std::string_view key, std::string text) : name(key), value(std::move(text)) {}
  LogField(std::string_view key, const char* text) : name(key), value(std::string(text)) {}
  template <std::integral Number>
  LogField(std::string_view key, Number number) : name(key), value(static_cast<std::int64_t>(number)) {}
};
using LogFields = std::vector<LogField>;

struct LogOptions {
  LogFormat format = LogFormat::text;
  LogLevel level = LogLevel::info;  // and what is graver
  int file = 2;
  std::size_t lines_max = 8192;  // that wait to be written
};

class Log {
 public:
  explicit Log(LogOptions options);
  // What waits is written, unless nobody takes it within close_time_max.
  ~Log();

  bool wants(LogLevel level) const;
  void write(LogLevel level, std::string_view message, const LogFields& fields = {});

  void info(std::string_view message, const LogFields& fields = {}) { write(LogLevel::info, message, fields); }
  void warning(std::string_view message, const LogFields& fields = {}) { write(LogLevel::warning, message, fields); }
  void error(std::string_view message, const LogFields& fields = {}) { write(LogLevel::error, message, fields); }

  // Waits until all that was written before has left, for at most close_time_max. Before the process is ended by force.
  void flush();

  // Lines that nobody will see.
  std::uint64_t dropped() const;

  static constexpr std::chrono::milliseconds close_time_max{1000};

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

// One line without its end, as it is written.
std::string log_line(LogFormat format, std::int64_t unix_ms, LogLevel level, std::string_view message,
                     const LogFields& fields);

// For what a stranger can cause as often as they like: lets a few lines through in each period and counts the others.
class LogThrottle {
 public:
  // How many were held back before this one, which is let through; nothing when this one is held back too.
  std::optional<std::uint64_t> admit(std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

  static constexpr int lines_max = 10;
  static constexpr std::chrono::seconds period{10};

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::time_point since_{};
  int lines_ = 0;
  std::uint64_t held_back_ = 0;
};

}  // namespace pawl
