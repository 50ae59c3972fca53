// What programs of steps say, kept in files while they say it, and read by those who are curious. Nothing here is in
// the journal: logs may be lost or deleted without harm to any run.
//
//   <data>/logs/<run>/<step>/<attempt>/<stream>.<offset>.log     pieces of a stream, each named by where it begins
//   <data>/logs/<run>/<step>/<attempt>/ended                     nothing more will come
//
// Offsets count every byte that the stream ever had. When a stream grows over its limit, pieces out of its middle are
// deleted: how it began and how it ends is what people look for. A reader that asks for what is gone is given what
// follows, and told where that begins.
//
// Whose logs they are is the caller's to check: the run's id is all that this knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/id.h"
#include "core/names.h"
#include "core/time.h"
#include "process/descriptor.h"
#include "secrets/scrubber.h"

namespace pawl {

struct LogLimits {
  std::size_t piece_bytes_max = std::size_t{8} << 20;
  std::size_t stream_bytes_max = std::size_t{128} << 20;  // of one stream of one attempt
  std::size_t all_bytes_max = std::size_t{8} << 30;       // of all runs: the oldest go first
  Duration keep = std::chrono::hours(24 * 30);
};

enum class LogStream { stdout_, stderr_ };
template <>
inline constexpr std::array enum_names<LogStream>{std::string_view("stdout"), std::string_view("stderr")};

// One attempt's.
struct LogPlace {
  RunId run;
  StepId step;
  int attempt = 1;
};

// What must not stand in a log.
struct LogSecrets {
  Scrubber scrubber;
  bool has_lines = false;  // one of them is longer than a line

  void add(std::string_view name, std::string_view value) {
    scrubber.add(name, value);
    has_lines = has_lines || value.contains('\n');
  }
};

// Writes one stream, after what is there. One thread at a time. A disk that is full costs the log, never the step.
class LogWriter {
 public:
  LogWriter(std::filesystem::path folder, LogStream stream, const LogLimits& limits, const LogSecrets& secrets);
  ~LogWriter() { flush(); }
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void write(std::string_view bytes);
  // Where secrets are looked for, what may be the beginning of one is held back until this.
  void flush();
  std::uint64_t size() const { return size_; }

 private:
  void put(std::string_view bytes);
  bool open_piece();

  const std::filesystem::path folder_;
  const LogStream stream_;
  const LogLimits& limits_;
  const LogSecrets& secrets_;
  std::string held_;
  Descriptor piece_;
  std::size_t piece_bytes_ = 0;
  std::deque<std::pair<std::uint64_t, std::size_t>> pieces_;  // where each begins and how long it is
  std::size_t kept_bytes_ = 0;
  std::uint64_t size_ = 0;
  bool is_broken_ = false;
};

struct LogQuery {
  std::optional<int> attempt;  // absent: the last
  LogStream stream = LogStream::stdout_;
  std::uint64_t after = 0;
  std::optional<std::uint64_t> tail;  // instead of `after`: at most the last so many bytes
  std::size_t bytes_max = std::size_t{256} << 10;
};

struct LogPart {
  int attempt = 0;
  std::uint64_t from = 0;  // more than was asked for when that is no longer kept
  std::uint64_t next = 0;  // where to go on
  std::string text;        // made UTF-8
  bool ended = false;      // nothing comes after `next`
};

class RunLogs {
 public:
  explicit RunLogs(std::filesystem::path data, LogLimits limits = {})
      : root_(std::move(data) / "logs"), limits_(limits) {}

  const LogLimits& limits() const { return limits_; }
  std::filesystem::path folder(const LogPlace& place) const;
  // Of all attempts; a place for what one of them leaves to the next.
  std::filesystem::path folder(RunId run, const StepId& step) const;
  // Makes the folder. Throws std::system_error when it cannot.
  std::filesystem::path begin(const LogPlace& place) const;
  void end(const LogPlace& place) const;

  // Steps of the run that have logs, in the order of their names.
  std::vector<StepId> steps(RunId run) const;
  // Nothing when there is no such log. Blocks on the disk, for as long as a quarter of a megabyte takes.
  std::optional<LogPart> read(RunId run, const StepId& step, const LogQuery& query) const;

  // Deletes what is over the limits. How many runs' logs that were. Nothing of the last hour.
  int sweep(Instant now) const;

 private:
  std::filesystem::path root_;
  LogLimits limits_;
};

}  // namespace pawl
