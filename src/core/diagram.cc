#include "core/diagram.h"

#include <vector>

#include "core/approval_lifecycle.h"
#include "core/receipt_lifecycle.h"
#include "core/run_lifecycle.h"
#include "core/step_lifecycle.h"
#include "core/task_lifecycle.h"

namespace pawl {
namespace {

// A lifecycle with its types erased: words only.
struct Graph {
  struct Edge {
    std::string_view from;
    std::string_view trigger;
    std::string_view to;
  };
  std::string_view name;
  std::string_view start;
  std::vector<Edge> edges;
  std::vector<std::string_view> terminal;
};

template <class State, class Trigger, std::size_t N>
Graph graph_of(LifecycleName name, State start, const Lifecycle<State, Trigger, N>& table) {
  Graph graph{to_string(name), to_string(start), {}, {}};
  for (const auto& row : table) graph.edges.push_back({to_string(row.from), to_string(row.trigger), to_string(row.to)});
  for (std::size_t i = 0; i < enum_count<State>; ++i)
    if (auto state = static_cast<State>(i); is_terminal(table, state)) graph.terminal.push_back(to_string(state));
  return graph;
}

Graph graph_named(LifecycleName name) {
  switch (name) {
    case LifecycleName::run:
      return graph_of(name, RunStatus::created, run_table);
    case LifecycleName::step:
      return graph_of(name, StepStatus::pending, step_table);
    case LifecycleName::approval:
      return graph_of(name, ApprovalStatus::requested, approval_table);
    case LifecycleName::receipt:
      return graph_of(name, ReceiptStatus::intended, receipt_table);
    case LifecycleName::task:
      return graph_of(name, TaskState::pending, task_table);
  }
  return {};
}

class Lines {
 public:
  template <class... Parts>
  void add(const Parts&... parts) {
    ((text_ += parts), ...);
    text_ += '\n';
  }
  std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

std::string print_mermaid(const Graph& graph) {
  Lines out;
  out.add("stateDiagram-v2");
  out.add("  [*] --> ", graph.start);
  for (const auto& edge : graph.edges) out.add("  ", edge.from, " --> ", edge.to, ": ", edge.trigger);
  for (auto state : graph.terminal) out.add("  ", state, " --> [*]");
  return std::move(out).take();
}

std::string print_dot(const Graph& graph) {
  Lines out;
  out.add("digraph ", graph.name, " {");
  out.add("  rankdir=LR;");
  out.add("  node [shape=box, style=rounded];");
  out.add("  entry [shape=point];");
  for (auto state : graph.terminal) out.add("  ", state, " [peripheries=2];");
  out.add("  entry -> ", graph.start, ";");
  for (const auto& edge : graph.edges) out.add("  ", edge.from, " -> ", edge.to, " [label=\"", edge.trigger, "\"];");
  out.add("}");
  return std::move(out).take();
}

}  // namespace

std::string diagram(LifecycleName lifecycle, DiagramFormat format) {
  Graph graph = graph_named(lifecycle);
  return format == DiagramFormat::mermaid ? print_mermaid(graph) : print_dot(graph);
}

}  // namespace pawl
