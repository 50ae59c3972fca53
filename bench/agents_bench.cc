// bench/run agents: what it costs to listen to an agent, and to start one.
//
// The agent is this program itself, started as one: it writes a stream of the Claude Code CLI's as fast as a pipe takes
// it, or says its result at once.
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "arguments.h"
#include "bench/figures.h"
#include "measure.h"
#include "process/process.h"
#include "process/sandbox.h"
#include "tools/agent.h"
#include "tools/tools.h"

namespace {

using namespace pawl;
using namespace pawl::bench;
namespace fs = std::filesystem;
using boost::json::object;

constexpr const char* role_variable = "PAWL_BENCH_AGENT";
constexpr std::string_view result_line =
    R"({"type":"result","subtype":"success","is_error":false,"result":"done","total_cost_usd":0.5,"num_turns":1,"session_id":"s"})";

void write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written <= 0) std::_Exit(1);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Lines as agents write them: much talk, some results of tools that are long, a status now and then.
int be_an_agent(const std::string& role) {
  write_all("{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}\n");
  if (role != "quick") {
    std::string chunk;
    for (int i = 0; chunk.size() < (1 << 20); ++i) {
      const auto length = i % 16 == 0 ? 60'000U : 1'200U;
      chunk +=
          fmt::format(
              R"({{"type":"{}","message":{{"role":"x","content":[{{"type":"text","text":"{}"}}]}},"session_id":"s"}})",
              i % 2 == 0 ? "assistant" : "user", std::string(length, 'x')) +
          "\n";
      if (i % 10 == 0)
        chunk += "{\"type\":\"system\",\"subtype\":\"status\",\"session_id\":\"s\",\"total_cost_usd\":0.25}\n";
    }
    for (auto left = std::stoull(role); left > 0; left -= std::min<unsigned long long>(left, chunk.size()))
      write_all(chunk);
  }
  write_all(std::string(result_line) + "\n");
  return 0;
}

Lease lease_of(const object& input, std::uint64_t number) {
  Lease lease;
  lease.run = RunId{{0x0190000000007000, 0x8000000000000000 + number}};
  lease.step = {"work"};
  lease.input = boost::json::serialize(input);
  lease.attempt = 1;
  return lease;
}

void must_complete(const ToolResult& result) {
  if (const auto* failed = std::get_if<Failed>(&result)) throw std::runtime_error(failed->message);
  if (!std::holds_alternative<Completed>(result)) throw std::runtime_error("the agent did not complete");
}

// Until the reader has it all, and does nothing with it.
double pipe_alone(const fs::path& self, std::size_t bytes) {
  auto out = make_pipe();
  const auto null = open_null_device();
  const double begin = seconds_now();
  auto process = Process::spawn({.argv = {self.string()},
                                 .environment = {fmt::format("{}={}", role_variable, bytes)},
                                 .directory = {},
                                 .stdin_fd = null.get(),
                                 .stdout_fd = out.write_end.get(),
                                 .stderr_fd = null.get()});
  if (!process) throw std::runtime_error("cannot start");
  out.write_end.close();
  std::vector<char> buffer(256 << 10);
  for (;;) {
    pollfd wait{.fd = out.read_end.get(), .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, -1);
    if (::read(out.read_end.get(), buffer.data(), buffer.size()) == 0) break;
  }
  return static_cast<double>(bytes) / 1e6 / (seconds_now() - begin);
}

void stream(const Report& report, const Arguments& arguments, std::size_t bytes) {
  report.heading(fmt::format("an agent's stream of {} MB, read, understood and kept as a log", bytes / 1'000'000));
  constexpr int rounds = 5;
  std::vector<double> rates, ceilings;
  const double before = resident_mib();
  double most = before;
  for (int round = 0; round < rounds; ++round) {
    ceilings.push_back(pipe_alone(arguments.self, bytes));
    auto context = std::make_shared<AgentContext>(arguments.parent / fmt::format("stream{}", round),
                                                  LogLimits{.stream_bytes_max = std::size_t{512} << 20});
    context->claude = arguments.self.string();
    context->sandbox_use = SandboxUse::off;
    auto tool = make_agent_claude(context);
    std::jthread watcher([&](std::stop_token stop) {
      while (!stop.stop_requested()) {
        most = std::max(most, resident_mib());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    const auto lease = lease_of({{"prompt", "x"}, {"env", {{role_variable, std::to_string(bytes)}}}}, 1);
    const double begin = seconds_now();
    must_complete(tool->run(lease, {}, {}));
    rates.push_back(static_cast<double>(bytes) / 1e6 / (seconds_now() - begin));
    watcher.request_stop();
    watcher.join();
    fs::remove_all(context->data);
  }
  const double ceiling = percentile(ceilings, 0.5);
  const double reached = percentile(rates, 0.5);
  report.add({"the pipe alone", ceiling, "MB/s", {}, "", ""});
  report.add({"read as an agent's", reached, "MB/s", reached / ceiling, "the pipe alone", "200"});
  report.add({"memory that it took", most - before, "MiB", {}, "", "bounded"});
}

// From nothing to its end: what the same process takes without us, in the same control group and sandbox. To join a
// group can take the kernel ten milliseconds, and is nothing that an agent adds.
double bare(const fs::path& self, const Sandbox* sandbox, const fs::path& workspace) {
  auto out = make_pipe();
  const auto null = open_null_device();
  ProcessPlan plan{.argv = {self.string()},
                   .environment = {"PATH=/usr/bin:/bin", fmt::format("{}=quick", role_variable)},
                   .directory = workspace.string(),
                   .stdin_fd = null.get(),
                   .stdout_fd = out.write_end.get(),
                   .stderr_fd = null.get()};
  if (sandbox)
    plan = sandbox->wrap(std::move(plan),
                         {.directory = workspace.string(), .writable = {workspace.string()}, .readable = {}});
  const double begin = seconds_now();
  auto group = ControlGroup::make(
      fmt::format("pawl-bench-{}", ::getpid()),
      sandbox ? ControlLimits{SandboxLimits{}.memory_bytes_max, SandboxLimits{}.processes_max} : ControlLimits{});
  plan.control_groups = group.entrances();
  auto process = Process::spawn(plan);
  if (!process) throw std::runtime_error("cannot start");
  out.write_end.close();
  pollfd wait{.fd = process->ended_fd(), .events = POLLIN, .revents = 0};
  ::poll(&wait, 1, -1);
  process->kill_and_reap();
  group.end();
  return (seconds_now() - begin) * 1e3;
}

void start(const Report& report, const Arguments& arguments, int count) {
  report.heading("one agent that says its result at once, from its lease to its report");
  auto context = std::make_shared<AgentContext>(arguments.parent / "start");
  const auto workspace = arguments.parent / "workspace";
  fs::create_directories(workspace);
  auto tool = make_agent_command(context);
  std::uint64_t number = 0;
  for (const bool sandboxed : {false, true}) {
    const std::string where = sandboxed ? "in a sandbox" : "without a sandbox";
    if (sandboxed && !context->sandbox->is_available()) {
      report.note(where, context->sandbox->is_available().error());
      continue;
    }
    std::vector<double> bare_ms, agent_ms, difference, work_ms;
    for (int i = 0; i < count; ++i) {
      bare_ms.push_back(bare(arguments.self, sandboxed ? context->sandbox.get() : nullptr, workspace));
      const auto lease = lease_of({{"prompt", "x"},
                                   {"command", {arguments.self.string()}},
                                   {"folder", workspace.string()},
                                   {"sandbox", sandboxed ? "required" : "off"},
                                   {"env", {{role_variable, "quick"}}}},
                                  ++number);
      const double begin = seconds_now(), cpu = cpu_seconds_now();
      must_complete(tool->run(lease, {}, {}));
      work_ms.push_back((cpu_seconds_now() - cpu) * 1e3);
      agent_ms.push_back((seconds_now() - begin) * 1e3);
      difference.push_back(agent_ms.back() - bare_ms.back());
    }
    report.add({"fork, exec and end alone, " + where + ": p50", percentile(bare_ms, 0.5), "ms", {}, "", ""});
    report.add({"as an agent: p50", percentile(agent_ms, 0.5), "ms", {}, "", ""});
    report.add({"the difference: p50", percentile(difference, 0.5), "ms", {}, "", "at most 5"});
    // On a busy machine the difference is mostly waiting for a turn; this is what is done in it.
    report.add({"processor time of it here: p50", percentile(work_ms, 0.5), "ms", {}, "", "at most 5"});
    report.add({"the difference: p95", percentile(difference, 0.95), "ms", {}, "", ""});
  }
}

constexpr const char* usage =
    "usage: agents_bench [--json] [--quick] [--folder DIR] [stream|start]...\n"
    "Without names, both. --quick takes a tenth of the work; its figures are for trying things out.\n";

}  // namespace

int main(int argc, char** argv) {
  if (const char* role = std::getenv(role_variable)) return be_an_agent(role);
  constexpr std::array<std::string_view, 2> names{"stream", "start"};
  auto arguments = read_arguments(argc, argv, names, usage);
  if (!arguments) return 2;
  fs::create_directories(arguments->parent);
  Report report(arguments->style);
  if (arguments->wants("stream")) stream(report, *arguments, arguments->quick ? 10'000'000 : 100'000'000);
  if (arguments->wants("start")) start(report, *arguments, arguments->quick ? 20 : 200);
  fs::remove_all(arguments->parent);
}
