#include "simulator/workflow_maker.h"

namespace pawl::simulator {
namespace {

std::string duration(Duration span) { return print_duration(span); }

std::string make_retry(Dice& dice) {
  if (dice.percent(30)) {
    std::string out = "{schedule: [";
    for (int i = dice.between(1, 3); i > 0; --i)
      out += duration(dice.between(Duration(0), Duration(20'000))) + (i > 1 ? ", " : "");
    return out + "]}";
  }
  return "{max_attempts: " + std::to_string(dice.between(1, 4)) +
         ", base: " + duration(dice.between(Duration(0), Duration(3000))) +
         ", max: " + duration(dice.between(Duration(3000), Duration(30'000))) +
         ", jitter: " + (dice.percent(50) ? "0.2" : "0") + "}";
}

std::string make_gate(Dice& dice) {
  std::string out;
  if (dice.percent(25))
    out += "    two_person: true\n";
  else if (dice.percent(30))
    out += "    quorum: " + std::to_string(dice.between(1, 3)) + "\n";
  if (dice.percent(60)) out += "    expires: " + duration(dice.between(Duration(500), Duration(90'000))) + "\n";
  return out;
}

std::string make_with(Dice& dice, const std::string& tool, const std::string& earlier) {
  std::string keys;
  if (tool == "fetch") keys += std::string("method: ") + (dice.percent(50) ? "GET" : "POST");
  if (dice.percent(30)) keys += (keys.empty() ? "" : ", ") + std::string("about: \"${{ input.about }}\"");
  if (!earlier.empty() && dice.percent(40))
    keys += (keys.empty() ? "" : ", ") + std::string("from: \"${{ steps.") + earlier + ".output }}\"";
  return keys.empty() ? "" : "    with: {" + keys + "}\n";
}

std::string make_work(Dice& dice, const std::string& tool, const std::string& earlier) {
  std::string out = make_with(dice, tool, earlier);
  if (dice.percent(50)) out += "    retry: " + make_retry(dice) + "\n";
  if (dice.percent(40)) out += "    timeout: " + duration(dice.between(Duration(200), Duration(60'000))) + "\n";
  if (dice.percent(70)) out += "    lease: " + duration(dice.between(Duration(100), Duration(20'000))) + "\n";
  return out;
}

// Sometimes its time is an expression that leads nowhere.
std::string make_wait(Dice& dice, const std::string& tool) {
  std::string span =
      dice.percent(5) ? "\"${{ input.nothing }}\"" : duration(dice.between(Duration(0), Duration(60'000)));
  return tool == "sleep" ? "    with: {duration: " + span + "}\n" : "    for: " + span + "\n";
}

std::string make_caps(Dice& dice) {
  std::string keys;
  auto add = [&](std::string key, int low, int high) {
    keys += (keys.empty() ? "" : ", ") + std::move(key) + ": " + std::to_string(dice.between(low, high));
  };
  if (dice.percent(60)) add("max_concurrency", 1, 3);
  if (dice.percent(40)) add("max_runs_per_min", 1, 4);
  if (dice.percent(30)) add("max_writes_per_run", 0, 3);
  return keys.empty() ? "" : "caps: {" + keys + "}\n";
}

}  // namespace

ToolCatalog simulated_tools() {
  ToolCatalog tools;
  std::vector<ToolKey> keys{{.name = "about"}, {.name = "from"}};
  tools.add({.name = {"read"}, .keys = keys, .writes = ToolSpec::Writes::never});
  tools.add({.name = {"write"}, .keys = keys, .writes = ToolSpec::Writes::always});
  tools.add({.name = sleep_tool,
             .keys = {{.name = "duration", .required = true, .kind = ToolKey::Kind::duration}},
             .writes = ToolSpec::Writes::never});
  keys.push_back({.name = "method"});
  tools.add({.name = {"fetch"}, .keys = keys, .writes = ToolSpec::Writes::by_method});
  return tools;
}

std::string make_workflow(Dice& dice, const std::string& name) {
  std::string out = "workflow: " + name + "\n";
  if (dice.percent(30)) out += "timeout: " + duration(dice.between(Duration(1000), Duration(180'000))) + "\n";
  if (dice.percent(30)) out += "budget_usd: \"0.0" + std::to_string(dice.between(1, 9)) + "\"\n";
  if (dice.percent(40)) out += "retry: " + make_retry(dice) + "\n";
  if (dice.percent(35)) out += make_caps(dice);
  out += "steps:\n";
  bool graph = dice.percent(60);
  int gates_percent = dice.one_of({0, 0, 15, 40});
  int waits_percent = dice.one_of({0, 0, 0, 20});
  int count = dice.between(1, graph ? 6 : 4);
  for (int i = 0; i < count; ++i) {
    out += "  - id: s" + std::to_string(i) + "\n";
    std::string tool = dice.percent(gates_percent)   ? "approval"
                       : dice.percent(waits_percent) ? dice.one_of({"wait", "sleep"})
                                                     : dice.one_of({"read", "read", "write", "fetch"});
    out += "    tool: " + tool + "\n";
    std::string earlier = i > 0 && !graph ? "s" + std::to_string(dice.between(0, i - 1)) : "";
    if (graph) {
      std::string needs;
      for (int j = 0; j < i; ++j)
        if (dice.percent(40)) {
          needs += (needs.empty() ? "" : ", ") + ("s" + std::to_string(j));
          earlier = "s" + std::to_string(j);
        }
      out += "    needs: [" + needs + "]\n";
    }
    if (tool == "approval")
      out += make_gate(dice);
    else if (tool == "wait" || tool == "sleep")
      out += make_wait(dice, tool);
    else
      out += make_work(dice, tool, earlier);
  }
  return out;
}

std::string with_risks(Dice& dice, std::string workflow) {
  constexpr std::string_view line = "    tool: write\n";
  for (std::size_t at = workflow.find(line); at != workflow.npos; at = workflow.find(line, at + line.size()))
    if (dice.percent(60)) workflow.insert(at + line.size(), dice.percent(50) ? "    risk: med\n" : "    risk: high\n");
  return workflow;
}

}  // namespace pawl::simulator
