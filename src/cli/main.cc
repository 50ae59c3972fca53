#include <clocale>
#include <cstdio>
#include <exception>
#include <ranges>
#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "cli/folder.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "tools/jq_child.h"

namespace {

// A message may quote a damaged file or a server's answer, which must not control the terminal.
int fail(std::string_view what, pawl::ExitCode code) {
  pawl::restore_terminal();
  std::string out = "pawl: ";
  for (const auto line : std::views::split(what, '\n')) out += pawl::printable(std::string_view(line)) + '\n';
  std::fputs(out.c_str(), stderr);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // The transform tool runs this same program as its helper.
  if (argc > 1 && argv[1] == pawl::jq_child_argument) return pawl::jq_child_main();
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for the width of characters, whatever the user's language

  auto line = pawl::parse_arguments(argc, argv);
  if (!line) {
    std::fputs(line.error().text.c_str(), line.error().code == pawl::exit_success ? stdout : stderr);
    return line.error().code;
  }
  try {
    return line->command();
  } catch (const pawl::Stop& stop) {
    return fail(stop.what(), stop.code());
  } catch (const pawl::StoreFailure& failure) {
    return fail(failure.what(), pawl::exit_store_failure);
  } catch (const std::exception& error) {
    return fail(std::string("internal error: ") + error.what(), pawl::exit_internal);
  }
}
