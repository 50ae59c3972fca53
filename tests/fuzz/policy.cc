// Any rule and any action: the verdict is the truth where that is known, and whatever fails is a deny.
#include "fuzz.h"
#include "govern/policy_oracle.h"

namespace pawl::fuzz {

FUZZ_TARGET(policy) {
  check(test::ending_memory_is_installed, "SQLite takes its memory from here");
  if (const std::string wrong = test::PolicyOracle::check(input); !wrong.empty()) throw Broken(wrong);
}

}  // namespace pawl::fuzz
