// The helper process in which jq programs run. libjq cannot be interrupted and has no memory limit; a process has both.
// The helper is this same program, started again with jq_child_argument as its first argument:
//
//   int main(int argc, char** argv) {
//     if (argc > 1 && argv[1] == pawl::jq_child_argument) return pawl::jq_child_main();
//
// It answers one request after another on one socket (its stdin and stdout) and ends when that closes:
//
//   request := JqRequest program input
//   reply   := JqReply text
#pragma once

#include <cstdint>
#include <string_view>

namespace pawl {

inline constexpr std::string_view jq_child_argument = "--jq-child";

struct JqRequest {
  std::uint32_t program_bytes = 0;
  std::uint32_t input_bytes = 0;
  std::uint32_t output_bytes_max = 0;
  std::uint32_t cpu_ms_max = 0;  // of this request; past it the helper dies of SIGPROF
  std::uint64_t memory_bytes_max = 0;
  std::uint32_t compiles_only = 0;  // not 0: the program is not run; no results, or jq's message
};

struct JqReply {
  enum class Kind : std::uint32_t { results, error, output_too_large, out_of_memory } kind = Kind::results;
  std::uint32_t count = 0;       // of results; they follow joined by commas
  std::uint32_t text_bytes = 0;  // the results, or jq's message
};

// Does not return before the socket closes. The exit code for main.
int jq_child_main();

}  // namespace pawl
