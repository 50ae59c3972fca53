// Builders for the tests of tools: a lease, one call, its result.
#pragma once

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <chrono>
#include <string>

#include "process/sanitized.h"
#include "support/waiting.h"
#include "tools/tools.h"

namespace pawl {

inline constexpr Instant test_now{1'800'000'000'000};

inline Lease lease_of(std::string tool, JsonText input) {
  Lease lease;
  lease.run = RunId{{0x0190000000007000, 0x8000000000000001}};
  lease.step = {"one"};
  lease.tool = {std::move(tool)};
  lease.input = std::move(input);
  lease.token = 7;
  lease.attempt = 1;
  lease.idempotency_key = "run:one";
  lease.expires_at = test_now + std::chrono::seconds(30);
  lease.timeout = std::chrono::minutes(10);
  return lease;
}

inline ToolResult try_tool(Tool& tool, JsonText input, std::stop_token stop = {}) {
  return tool.run(lease_of(tool.spec().name.str(), std::move(input)), test_now, std::move(stop));
}

// "TOOL_FAILED: message", so that a test that expected another result says which one it got.
inline std::string describe(const ToolResult& result) {
  if (const auto* completed = std::get_if<Completed>(&result)) return completed->output;
  if (const auto* failed = std::get_if<Failed>(&result)) return failed->error_code + ": " + failed->message;
  if (const auto* asked = std::get_if<Asked>(&result)) return "asked " + asked->question;
  if (std::holds_alternative<Nothing>(result)) return "nothing";
  return "complete at " + std::to_string(std::get<CompleteAt>(result).at.ms);
}

inline std::string output_of(const ToolResult& result) {
  EXPECT_TRUE(std::holds_alternative<Completed>(result)) << describe(result);
  return describe(result);
}

inline Json json_output_of(const ToolResult& result) {
  const auto parsed = parse_json(output_of(result));
  EXPECT_TRUE(parsed.has_value()) << describe(result);
  return parsed.value_or(Json{});
}

inline Failed failure_of(const ToolResult& result) {
  EXPECT_TRUE(std::holds_alternative<Failed>(result)) << describe(result);
  return std::holds_alternative<Failed>(result) ? std::get<Failed>(result) : Failed{};
}

// Code and message in one look.
inline void expect_failure(const ToolResult& result, std::string_view code, std::string_view in_message = "") {
  const Failed failed = failure_of(result);
  EXPECT_EQ(failed.error_code, code) << failed.message;
  EXPECT_NE(failed.message.find(in_message), std::string::npos) << failed.message;
}

class Stopwatch {
 public:
  std::chrono::milliseconds elapsed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin_);
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace pawl
