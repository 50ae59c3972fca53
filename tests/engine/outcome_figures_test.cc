#include "engine/outcome_figures.h"

#include <gtest/gtest.h>

namespace pawl::tests {
namespace {

TEST(OutcomeFigures, tell_only_so_many_names_apart) {
  OutcomeFigures figures;
  for (std::uint32_t n = 0; n < 2 * OutcomeFigures::workflows_max; ++n) ++figures.of_workflow(n).by_status[0];
  EXPECT_EQ(figures.workflows().size(), OutcomeFigures::workflows_max);
  EXPECT_EQ(figures.workflows().back().by_status[0], 1u);
  EXPECT_EQ(figures.other_workflows().by_status[0], OutcomeFigures::workflows_max);
  for (std::size_t n = 0; n < OutcomeFigures::tools_max + 7; ++n)
    ++figures.of_tool(ToolName{"tool." + std::to_string(n)}).attempts;
  ++figures.of_tool(ToolName{"tool.0"}).attempts;
  EXPECT_EQ(figures.tools().size(), OutcomeFigures::tools_max);
  EXPECT_EQ(figures.of_tool(ToolName{"tool.0"}).attempts, 2u);
  EXPECT_EQ(figures.other_tools().attempts, 7u);
}

}  // namespace
}  // namespace pawl::tests
