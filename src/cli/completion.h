// What a shell offers when Tab is pressed: commands, flags and values, out of the same declarations that read the
// command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_code.h"

namespace pawl {

// `pawl __complete WORDS...`: the words after pawl, the last one as far as it is typed. What the scripts of `pawl
// completion` call.
inline constexpr std::string_view completing_command = "__complete";

struct FlagOutline {
  std::vector<std::string> names;  // --data, -f
  std::string placeholder;         // DIR; empty: it takes no value, or only after =
  std::string help;
};

struct CommandOutline {
  std::string name;
  std::string help;
  std::vector<FlagOutline> flags;
  std::vector<std::string> positionals;  // RUN, FILE
  bool last_repeats = false;
};

// Prints a line a candidate, with what it is after a tab; `:files` or `:folders` when the shell knows better. Always
// quick, and silent whatever goes wrong.
ExitCode complete(const std::vector<CommandOutline>& commands, std::vector<std::string> words);

}  // namespace pawl
