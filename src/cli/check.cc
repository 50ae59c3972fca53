// pawl check: says everything that is wrong with definitions, each with its place.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/session.h"
#include "cli/text.h"

namespace pawl {

ExitCode check_files(const CheckOptions& options) {
  Toolbox toolbox;
  ExitCode out = exit_success;
  for (const std::string& file : options.files) {
    auto workflow = compile_workflow(read_whole_file(file), file, &toolbox.catalog);
    if (workflow) {
      fmt::print("{}: {} has {} step{}, no errors\n", file, workflow->name.text, workflow->steps.size(),
                 workflow->steps.size() == 1 ? "" : "s");
      const std::string& description = workflow->description;
      if (!description.empty()) fmt::print("  {}\n", printable(description.substr(0, description.find('\n'))));
    } else {
      fmt::print(stderr, "{}\n", workflow.error());
      out = exit_usage;
    }
  }
  return out;
}

}  // namespace pawl
