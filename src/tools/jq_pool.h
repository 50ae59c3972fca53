// A few helper processes kept alive, so that a jq program costs its own time and not that of starting a process.
#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace pawl {

struct JqLimits {
  Duration cpu_max{};
  Duration wall_max{};
  std::size_t memory_bytes_max = 0;
  std::size_t output_bytes_max = 0;
};

struct JqResults {
  std::size_t count = 0;
  std::string text;  // JSON values, joined by commas
};

struct JqError {
  enum class Kind { program, cpu_time, wall_time, memory, output_too_large, crashed, stopped } kind = Kind::program;
  std::string message;
};

// Thread-safe: each caller has a helper to itself for as long as it runs.
class JqPool {
 public:
  explicit JqPool(const JqLimits& limits);
  ~JqPool();

  std::expected<JqResults, JqError> evaluate(std::string_view program, std::string_view input,
                                             const std::stop_token& stop);
  // Whether jq takes the program, which is not run.
  std::expected<void, JqError> compile(std::string_view program, const std::stop_token& stop);

 private:
  class Child;
  struct Question;

  std::expected<JqResults, JqError> ask(const Question& question, const std::stop_token& stop);

  std::unique_ptr<Child> take();
  void keep(std::unique_ptr<Child> child);

  const JqLimits limits_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Child>> idle_;  // the warmest last
};

}  // namespace pawl
