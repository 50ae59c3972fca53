// What libFuzzer calls: the target that FUZZ_TARGET names in the environment.
#include <cstdio>
#include <cstdlib>

#include "fuzz.h"

namespace {

pawl::fuzz::Target chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const auto& all = pawl::fuzz::targets();
  const char* name = std::getenv("FUZZ_TARGET");
  auto found = all.find(name ? name : "");
  if (found == all.end()) {
    std::fprintf(stderr, "fuzz: set FUZZ_TARGET to one of these targets:");
    for (const auto& [target, run] : all) std::fprintf(stderr, " %s", target.c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  chosen = found->second;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen({reinterpret_cast<const char*>(data), size});
  return 0;
}
