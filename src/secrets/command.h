// One question to a program: its arguments in, what it prints out, within a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <string>
#include <vector>

namespace pawl {

// stdout of a program that exited with 0; or why there is none, in words that hold nothing that the program said. It
// has our environment, nothing on stdin, and its stderr goes nowhere.
std::expected<std::string, std::string> ask_program(const std::vector<std::string>& argv,
                                                    std::chrono::milliseconds time_max, std::size_t bytes_max);

}  // namespace pawl
