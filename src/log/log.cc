#include "log/log.h"

#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/sinks/sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>

#include "core/json.h"
#include "core/time.h"

namespace pawl {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto poll_period = std::chrono::milliseconds(20);
constexpr auto flush_period = std::chrono::milliseconds(1);

constexpr std::array spdlog_levels{spdlog::level::info, spdlog::level::warn, spdlog::level::err};
static_assert(spdlog_levels.size() == enum_count<LogLevel>);
spdlog::level::level_enum spdlog_level(LogLevel level) { return spdlog_levels[static_cast<std::size_t>(level)]; }

std::int64_t unix_ms_now() {
  auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

bool needs_quotes(std::string_view text) {
  return text.empty() || std::ranges::any_of(text, [](char c) {
           auto byte = static_cast<unsigned char>(c);
           return byte <= ' ' || byte == 0x7f || c == '"' || c == '=' || c == '\\';
         });
}

void append_value(std::string& out, const LogField& field, bool quoted) {
  if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
    out += std::to_string(*number);
    return;
  }
  const std::string& text = std::get<std::string>(field.value);
  if (quoted || needs_quotes(text))
    append_json_string(out, text);
  else
    out += text;
}

}  // namespace

std::string log_line(LogFormat format, std::int64_t unix_ms, LogLevel level, std::string_view message,
                     const LogFields& fields) {
  std::string out;
  if (format == LogFormat::json) {
    out = fmt::format(R"({{"time":"{}","level":"{}","message":)", print_time({unix_ms}), to_string(level));
    append_json_string(out, message);
    for (const LogField& field : fields) {
      out += ',';
      append_json_string(out, field.name);
      out += ':';
      append_value(out, field, true);
    }
    return out + '}';
  }
  out = fmt::format("{} {:7} {}", print_time({unix_ms}), to_string(level), message);
  for (const LogField& field : fields) {
    out += ' ';
    out += field.name;
    out += '=';
    append_value(out, field, false);
  }
  return out;
}

// On the one thread that writes. It waits for the reader, but never longer than it is allowed to once the log closes.
class FileSink final : public spdlog::sinks::sink {
 public:
  FileSink(LogFormat format, int file) : format_(format), file_(file) {}

  void count_drops_of(spdlog::details::thread_pool& pool) { pool_ = &pool; }
  void close_within(std::chrono::milliseconds time) { give_up_at_ = SteadyClock::now() + time; }
  std::uint64_t dropped() const { return lost_ + pool_->overrun_counter(); }
  std::uint64_t done_with() const { return handled_ + pool_->overrun_counter(); }

  void log(const spdlog::details::log_msg& line) override {
    if (auto missing = dropped() - said_; missing > 0) {
      said_ += missing;
      put(log_line(format_, unix_ms_now(), LogLevel::warning, "log lines were dropped", {{"lines", missing}}));
    }
    put(std::string(line.payload.data(), line.payload.size()));
    ++handled_;
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  void put(std::string line) {
    line += '\n';
    std::string_view rest = line;
    while (!rest.empty() && SteadyClock::now() < give_up_at_.load()) {
      pollfd ready{file_, POLLOUT, 0};
      if (::poll(&ready, 1, static_cast<int>(poll_period.count())) <= 0) continue;
      // So much a pipe takes without waiting when it says that it is ready.
      auto written = ::write(file_, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
      if (written < 0 && errno != EINTR && errno != EAGAIN) break;
      if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
    }
    if (!rest.empty()) ++lost_;
  }

  const LogFormat format_;
  const int file_;
  spdlog::details::thread_pool* pool_ = nullptr;  // whose thread this is
  std::atomic<SteadyClock::time_point> give_up_at_{SteadyClock::time_point::max()};
  std::atomic<std::uint64_t> lost_ = 0;
  std::atomic<std::uint64_t> handled_ = 0;
  std::uint64_t said_ = 0;
};

class Log::Inside {
 public:
  explicit Inside(const LogOptions& options)
      : format_(options.format),
        sink_(std::make_shared<FileSink>(options.format, options.file)),
        pool_(std::make_shared<spdlog::details::thread_pool>(options.lines_max, 1)),
        logger_(std::make_shared<spdlog::async_logger>("pawl", sink_, pool_,
                                                       spdlog::async_overflow_policy::overrun_oldest)) {
    sink_->count_drops_of(*pool_);
    logger_->set_level(spdlog_level(options.level));
  }
  ~Inside() {
    sink_->close_within(close_time_max);
    pool_.reset();  // ends once all that is queued has been written or given up
  }

  bool wants(LogLevel level) const { return logger_->should_log(spdlog_level(level)); }
  void write(LogLevel level, std::string_view message, const LogFields& fields) {
    ++queued_;
    logger_->log(spdlog_level(level), log_line(format_, unix_ms_now(), level, message, fields));
  }
  void flush() const {
    auto end = SteadyClock::now() + close_time_max;
    while (sink_->done_with() < queued_ && SteadyClock::now() < end) std::this_thread::sleep_for(flush_period);
  }
  std::uint64_t dropped() const { return sink_->dropped(); }

 private:
  const LogFormat format_;
  std::atomic<std::uint64_t> queued_ = 0;
  std::shared_ptr<FileSink> sink_;
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

Log::Log(LogOptions options) : inside_(std::make_unique<Inside>(options)) {}
Log::~Log() = default;
bool Log::wants(LogLevel level) const { return inside_->wants(level); }
void Log::write(LogLevel level, std::string_view message, const LogFields& fields) {
  if (wants(level)) inside_->write(level, message, fields);
}
void Log::flush() { inside_->flush(); }
std::uint64_t Log::dropped() const { return inside_->dropped(); }

std::optional<std::uint64_t> LogThrottle::admit(SteadyClock::time_point now) {
  std::lock_guard lock(mutex_);
  if (now - since_ >= period) {
    since_ = now;
    lines_ = 0;
  }
  if (lines_ == lines_max) {
    ++held_back_;
    return std::nullopt;
  }
  ++lines_;
  return std::exchange(held_back_, 0);
}

}  // namespace pawl
