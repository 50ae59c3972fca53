// jq programs run in a helper process, which is this same program: hence a main of our own.
#include <gtest/gtest.h>

#include "tools/jq_child.h"

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == pawl::jq_child_argument) return pawl::jq_child_main();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
