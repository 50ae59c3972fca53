// The command line, read: which command, with which options. All flags and help texts are in arguments.cc; mistakes are
// explained in command_line.cc.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <vector>

#include "cli/exit_code.h"

namespace pawl {

struct ParsedLine {
  std::function<ExitCode()> command;
};

// Nothing to execute: what to print instead (help on stdout, a mistake on stderr) and how to end.
struct NoCommand {
  std::string text;
  ExitCode code = exit_success;
};

std::expected<ParsedLine, NoCommand> parse_arguments(int argc, char** argv);

}  // namespace pawl
