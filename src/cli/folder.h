// The data folder: where it is, opening it, and finding runs in it by what a person typed.
#pragma once

#include <expected>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_code.h"
#include "store/sqlite/sqlite_store.h"
#include "store/store.h"

namespace pawl {

// What ends a command early: said on stderr as it stands, with this exit code.
class Stop : public std::runtime_error {
 public:
  Stop(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// The flag's, else $PAWL_DATA, else $XDG_DATA_HOME/pawl, else ~/.local/share/pawl.
std::filesystem::path data_folder(const std::string& flag);

// As one would type it after `--data`: quoted where a shell needs that.
std::string shell_word(std::string_view text);
// How this program was called, so that what is copied from the screen works.
std::string this_program();

// Where runs are, in the words of commands that shall find them again.
struct Location {
  std::string flags;       // "--data DIR" or "--server URL"
  bool is_served = false;  // a server goes on with the runs, whoever looks
  std::string server;      // its URL when it was named; empty: the folder tells
  std::filesystem::path folder;
};
Location location_of(const std::filesystem::path& folder);
// "pawl resume RUN --data DIR", to be copied.
std::string command_line(std::string_view command, std::string_view what, const Location& location);
inline std::string command_line(std::string_view command, RunId run, const Location& location) {
  return command_line(command, run.str(), location);
}

// Whether a process is writing this folder just now.
bool is_locked_by_another(const std::filesystem::path& folder);
std::filesystem::path journal_in(const std::filesystem::path& folder);

// Both stop the command with the right exit code and a hint when the folder cannot be opened. What is read is the
// folder at one moment, also beside a process that writes it.
std::unique_ptr<SqliteStore> open_to_write(const std::filesystem::path& folder);
std::unique_ptr<SqliteStore> open_to_read(const std::filesystem::path& folder);

bool is_postgres_url(std::string_view text);
// As it may be shown.
std::string without_password(std::string url);

struct FoundRun {
  TenantId tenant;
  RunId id;
};

// `text` is a whole id, the beginning of one, or at least its last six characters. Stops the command, naming what is
// near, when no run or more than one is meant. The id of a task, an approval or a receipt means its run. Finds runs
// that lie in unfolded frames only, too.
FoundRun find_run(Store& store, std::string_view text);

// The name this process acts under: person:<user name>.
Actor this_person();

}  // namespace pawl
