// Flags that several commands declare alike. For those who declare commands only: CLI11 is slow to compile.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/declared_commands.h"
#include "cli/text.h"
#include "core/lifecycle.h"

namespace pawl {

// What the command is to do, one of the enum's words.
template <class Enum>
void add_action(CLI::App& command, Enum& what, const std::string& help) {
  command
      .add_option_function<std::string>(
          "ACTION",
          [&what, help](const std::string& word) {
            auto found = parse_enum<Enum>(word);
            if (!found) throw CLI::ValidationError("ACTION", printable(word) + " is none of: " + help);
            what = *found;
          },
          help)
      ->type_name("");
}

// A time, or how long ago that was.
void add_moment(CLI::App& command, const std::string& flag, std::optional<Instant>& at, const std::string& help);

// Of a command that stays with a run.
void add_progress(CLI::App& command, ProgressFlags& flags);

// Whom it speaks to, and how it answers.
template <class Options>
void add_place(CLI::App& command, Options& options) {
  auto last = CLI::MultiOptionPolicy::TakeLast;
  command
      .add_option("--data", options.data,
                  "the data folder [$PAWL_DATA, else $XDG_DATA_HOME/pawl, else ~/.local/share/pawl]")
      ->multi_option_policy(last)
      ->type_name("DIR");
  command
      .add_option("--server", options.server, "a server's URL [$PAWL_SERVER, else the one that serves the data folder]")
      ->multi_option_policy(last)
      ->type_name("URL");
  command.add_flag("--json", options.json, "as JSON");
}

}  // namespace pawl
