// The commands and their flags as CLI11 knows them. For arguments.cc, which declares them, and command_line.cc, which
// reads a line by them; nobody else, since CLI11 is slow to compile.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

#include "cli/exit_code.h"

namespace pawl {

struct DeclaredCommand {
  CLI::App* app = nullptr;
  std::function<ExitCode()> execute;
};

// What stands for a value in the help (a flag's type name, a positional's name) also says what it can be: completion.cc
// has the table.
std::vector<DeclaredCommand> declare_commands(CLI::App& app);
// Of these, those of what was done outside and who allowed it.
std::vector<DeclaredCommand> declare_governance_commands(CLI::App& app);
// Of these, those that say who outside is told of what happens.
std::vector<DeclaredCommand> declare_notice_commands(CLI::App& app);
// Of these, those that take an installation elsewhere.
std::vector<DeclaredCommand> declare_backup_commands(CLI::App& app);
// Of these, those of what people ask for.
std::vector<DeclaredCommand> declare_task_commands(CLI::App& app);

}  // namespace pawl
