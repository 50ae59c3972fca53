#include <clocale>
#include <cstdio>
#include <exception>
#include <string>

#include "cli/arguments.h"
#include "cli/folder.h"
#include "cli/terminal.h"
#include "tools/jq_child.h"

namespace {

int fail(const std::string& what, pawl::ExitCode code) {
  pawl::restore_terminal();
  std::fprintf(stderr, "pawl: %s\n", what.c_str());
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
