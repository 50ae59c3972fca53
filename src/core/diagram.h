// Every lifecycle table as a picture. The docs and the dashboard show what this prints, so a picture cannot disagree
// with the table that is enforced.
#pragma once

#include <string>
#include <string_view>

#include "core/names.h"

namespace pawl {

enum class LifecycleName { run, step, approval, receipt, task };
enum class DiagramFormat { mermaid, dot };

template <>
inline constexpr std::array enum_names<LifecycleName>{std::string_view("run"), std::string_view("step"),
                                                      std::string_view("approval"), std::string_view("receipt"),
                                                      std::string_view("task")};

template <>
inline constexpr std::array enum_names<DiagramFormat>{std::string_view("mermaid"), std::string_view("dot")};

// Mermaid (stateDiagram-v2) or Graphviz DOT, rows in the table's own order; terminal states are marked as such.
// Ends with a newline.
std::string diagram(LifecycleName lifecycle, DiagramFormat format);

}  // namespace pawl
