#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <set>

#include "tools/processes.h"
#include "tools/try_tool.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;
using boost::json::object;

object command(std::initializer_list<std::string_view> argv) {
  boost::json::array list;
  for (const auto argument : argv) list.emplace_back(argument);
  return {{"argv", std::move(list)}};
}

object script(std::string_view text) { return command({"sh", "-c", text}); }

object with(object input, std::string_view key, Json value) {
  input[key] = std::move(value);
  return input;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator{}));
}

class Shell : public testing::Test {
 protected:
  Shell() : folder_(fs::temp_directory_path() / fmt::format("pawl_shell_test_{}", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~Shell() override { fs::remove_all(folder_); }

  ToolResult run(const object& input, std::stop_token stop = {}) {
    return try_tool(*tool_, boost::json::serialize(input), std::move(stop));
  }
  std::string stdout_of(const object& input) {
    const Json output = json_output_of(run(input));
    const auto* text = output.is_object() ? output.as_object().if_contains("stdout") : nullptr;
    return text ? std::string(std::string_view(text->as_string())) : "";
  }
  // Runs until `file` is there, then requests stop; how long the end took from then.
  std::chrono::milliseconds stop_once_there(const object& input, const fs::path& file) {
    std::stop_source stop;
    Stopwatch watch;
    std::jthread stopper([&] {
      EXPECT_TRUE(eventually([&] { return fs::exists(file); }));
      watch = Stopwatch();
      stop.request_stop();
    });
    failure_of(run(input, stop.get_token()));
    stopper.join();
    return watch.elapsed();
  }

  fs::path folder_;
  ToolLimits limits_{.shell_kill_grace = std::chrono::milliseconds(300), .shell_stream_bytes_max = 100'000};
  std::unique_ptr<Tool> tool_ = make_shell(limits_);
};

TEST_F(Shell, gives_exit_code_and_both_streams) {
  EXPECT_EQ(output_of(run(script("echo out; echo err >&2"))), R"({"exit_code":0,"stdout":"out\n","stderr":"err\n"})");
}

TEST_F(Shell, interprets_nothing) { EXPECT_EQ(stdout_of(command({"echo", "$HOME; ls | cat"})), "$HOME; ls | cat\n"); }

TEST_F(Shell, gives_the_program_its_standard_input) {
  EXPECT_EQ(stdout_of(with(command({"cat"}), "stdin", "some\ntext")), "some\ntext");
  EXPECT_EQ(stdout_of(with(command({"cat", "/dev/stdin"}), "stdin", "again")), "again");
  EXPECT_EQ(stdout_of(command({"cat"})), "") << "without one it is empty";
}

TEST_F(Shell, does_not_hang_on_input_that_nobody_reads) {
  EXPECT_EQ(stdout_of(with(command({"true"}), "stdin", boost::json::string(1 << 20, 'x'))), "");
}

TEST_F(Shell, runs_in_the_directory_it_is_told) {
  EXPECT_EQ(stdout_of(with(command({"pwd"}), "cwd", folder_.c_str())), folder_.string() + "\n");
  expect_failure(run(with(command({"pwd"}), "cwd", "/no/such/place")), "TOOL_INVALID_ARGUMENTS",
                 "`cwd` /no/such/place");
}

TEST_F(Shell, parses_standard_output_when_asked_to) {
  const auto input = with(command({"echo", R"({"a": [1, 2]})"}), "parse", "json");
  EXPECT_EQ(output_of(run(input)), R"({"exit_code":0,"json":{"a":[1,2]},"stderr":""})");
}

TEST_F(Shell, fails_for_good_when_output_to_be_parsed_is_not_json) {
  const auto result = run(with(command({"echo", "hello"}), "parse", "json"));
  expect_failure(result, "TOOL_FAILED", "stdout is not JSON");
  EXPECT_EQ(failure_of(result).retryable, false);
}

TEST_F(Shell, replaces_what_is_not_utf8) {
  EXPECT_EQ(stdout_of(command({"printf", R"(a\377b\303\244)"})),
            "a\xEF\xBF\xBD"
            "bä");
}

TEST_F(Shell, fails_with_the_tail_of_stderr) {
  const auto result = run(script("echo the disk is on fire >&2; exit 3"));
  expect_failure(result, "TOOL_FAILED", "sh exited with 3: the disk is on fire");
  EXPECT_EQ(failure_of(result).retryable, std::nullopt) << "the table says retryable";
  expect_failure(run(script("exit 75")), "TOOL_FAILED", "75");
  const auto long_story = failure_of(run(script("yes line | head -c 5000 >&2; echo the end >&2; exit 1")));
  EXPECT_NE(long_story.message.find("the end"), std::string::npos);
  EXPECT_LT(long_story.message.size(), 1200u);
}

TEST_F(Shell, names_the_signal_that_ended_the_program) {
  expect_failure(run(script("kill -SEGV $$")), "TOOL_FAILED", "signal 11");
}

TEST_F(Shell, is_not_tried_again_when_the_program_cannot_be_run) {
  std::ofstream(folder_ / "plain") << "not a program";
  expect_failure(run(command({"no-such-program-anywhere"})), "TOOL_INVALID_ARGUMENTS", "No such file");
  expect_failure(run(command({"/no/such/program"})), "TOOL_INVALID_ARGUMENTS", "No such file");
  expect_failure(run(command({(folder_ / "plain").string()})), "TOOL_INVALID_ARGUMENTS", "Permission denied");
  expect_failure(run(command({folder_.string()})), "TOOL_INVALID_ARGUMENTS", "Permission denied");
  expect_failure(run(script("exit 127")), "TOOL_INVALID_ARGUMENTS", "127");
  expect_failure(run(script("exit 126")), "TOOL_INVALID_ARGUMENTS", "126");
}

TEST_F(Shell, refuses_arguments_of_the_wrong_kind_by_name) {
  for (const char* input : {"{}", R"({"argv": []})", R"({"argv": "ls -l"})", R"({"argv": ["ls", 1]})",
                            R"({"argv": [""]})", R"({"argv": ["a\u0000b"]})"})
    expect_failure(try_tool(*tool_, input), "TOOL_INVALID_ARGUMENTS", "`argv`");
  expect_failure(run(with(command({"true"}), "env", object{{"A=B", "c"}})), "TOOL_INVALID_ARGUMENTS", "`env`");
  expect_failure(run(with(command({"true"}), "env", object{{"A", 1}})), "TOOL_INVALID_ARGUMENTS", "`env`");
  expect_failure(run(with(command({"true"}), "pass_env", "HOME")), "TOOL_INVALID_ARGUMENTS", "`pass_env`");
  expect_failure(run(with(command({"true"}), "cwd", 1)), "TOOL_INVALID_ARGUMENTS", "`cwd`");
  expect_failure(run(with(command({"true"}), "stdin", 1)), "TOOL_INVALID_ARGUMENTS", "`stdin`");
  expect_failure(run(with(command({"true"}), "parse", "xml")), "TOOL_INVALID_ARGUMENTS", "`parse`");
}

TEST_F(Shell, hides_the_environment_of_pawl) {
  ::setenv("PAWL_TEST_SECRET", "swordfish", 1);
  ::setenv("LANG", "C.UTF-8", 1);
  const auto text = stdout_of(command({"env"}));
  EXPECT_EQ(text.find("swordfish"), std::string::npos) << text;
  EXPECT_NE(text.find("PATH="), std::string::npos);
  EXPECT_NE(text.find("LANG=C.UTF-8"), std::string::npos);
  const auto passed = stdout_of(with(command({"env"}), "pass_env", boost::json::array{"PAWL_TEST_SECRET", "NOT_SET"}));
  EXPECT_NE(passed.find("PAWL_TEST_SECRET=swordfish"), std::string::npos);
  EXPECT_EQ(passed.find("NOT_SET"), std::string::npos);
}

TEST_F(Shell, tells_the_program_who_it_works_for) {
  const auto lease = lease_of("shell", "{}");
  const object forged{{"PAWL_RUN_ID", "another"}, {"COLOUR", "green"}};
  const auto text = stdout_of(with(command({"env"}), "env", forged));
  EXPECT_NE(text.find("PAWL_RUN_ID=" + lease.run.str() + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find("PAWL_STEP_ID=one\n"), std::string::npos);
  EXPECT_NE(text.find("PAWL_ATTEMPT=1\n"), std::string::npos);
  EXPECT_NE(text.find("PAWL_IDEMPOTENCY_KEY=run:one\n"), std::string::npos);
  EXPECT_NE(text.find("COLOUR=green\n"), std::string::npos);
  EXPECT_EQ(text.find("another"), std::string::npos) << "a step cannot pass itself off as another";
}

TEST_F(Shell, finds_programs_in_the_path_that_the_step_gives) {
  const auto program = folder_ / "greet";
  std::ofstream(program) << "#!/bin/sh\necho hello from here\n";
  fs::permissions(program, fs::perms::owner_all);
  EXPECT_EQ(stdout_of(with(command({"greet"}), "env", object{{"PATH", "/nowhere::" + folder_.string()}})),
            "hello from here\n");
}

TEST_F(Shell, leaks_no_descriptor_into_the_program) {
  const int leaky = ::open("/etc/hostname", O_RDONLY);  // not close-on-exec
  std::istringstream listed(stdout_of(command({"ls", "/proc/self/fd"})));
  ::close(leaky);
  std::set<int> seen;
  for (int fd; listed >> fd;) seen.insert(fd);
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3})) << "3 is ls itself reading the directory";
}

TEST_F(Shell, leaks_no_descriptor_of_its_own) {
  run(command({"true"}));
  const auto before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    run(with(command({"cat"}), "stdin", "x"));
    run(command({"no-such-program-anywhere"}));
    run(with(command({"true"}), "cwd", "/no/such/place"));
    run(script("exit 1"));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(Shell, gives_the_program_its_default_signals) {
  ::signal(SIGPIPE, SIG_IGN);
  // With SIGPIPE ignored, `yes` would see an error and complain instead of ending quietly.
  EXPECT_EQ(output_of(run(script("yes | head -n 1"))), R"({"exit_code":0,"stdout":"y\n","stderr":""})");
}

TEST_F(Shell, runs_without_a_terminal_and_in_its_own_group) {
  std::istringstream text(stdout_of(script("cut -d' ' -f5,6 /proc/$$/stat; echo $$")));
  pid_t group = 0, session = 0, pid = 0;
  text >> group >> session >> pid;
  EXPECT_EQ(group, pid);
  EXPECT_EQ(session, pid);
}

TEST_F(Shell, stops_a_flood_on_either_stream) {
  expect_failure(run(command({"yes"})), "TOOL_OUTPUT_TOO_LARGE", "100000");
  expect_failure(run(script("yes >&2")), "TOOL_OUTPUT_TOO_LARGE", "100000");
}

TEST_F(Shell, is_not_held_up_by_a_child_left_in_the_background_and_ends_it) {
  const Stopwatch watch;
  std::istringstream text(stdout_of(script("sleep 1000 & echo $!")));
  EXPECT_LT(watch.elapsed(), hang_limit);
  pid_t left = 0;
  text >> left;
  ASSERT_GT(left, 0);
  EXPECT_TRUE(eventually([&] { return !is_running(left); }));
}

TEST_F(Shell, ends_a_whole_brood_of_children) {
  const auto file = folder_ / "pids";
  run(script(fmt::format("for i in $(seq 60); do (trap '' TERM; while :; do sleep 1; done) & echo $! >> {}; done",
                         file.string())));
  const auto pids = pids_in(file);
  EXPECT_EQ(pids.size(), 60u);
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([&] { return !is_running(pid); }));
}

TEST_F(Shell, is_not_held_up_by_a_child_that_moved_to_its_own_session) {
  const auto file = folder_ / "pid";
  const Stopwatch watch;
  EXPECT_EQ(stdout_of(script(fmt::format("setsid sh -c 'echo $$ > {0}.part; mv {0}.part {0}; exec sleep 1000' &"
                                         "while [ ! -e {0} ]; do sleep 0.01; done; echo done",
                                         file.string()))),
            "done\n");
  EXPECT_LT(watch.elapsed(), hang_limit);
  for (const pid_t pid : pids_in(file)) ::kill(pid, SIGKILL);
}

TEST_F(Shell, asks_a_program_politely_to_stop) {
  const auto ready = folder_ / "ready", farewell = folder_ / "farewell";
  tool_ = make_shell({.shell_kill_grace = 2 * hang_limit});
  const auto took =
      stop_once_there(script(fmt::format("trap 'echo bye > {}; exit 0' TERM; touch {}; while :; do sleep 0.01; done",
                                         farewell.string(), ready.string())),
                      ready);
  EXPECT_TRUE(fs::exists(farewell));
  EXPECT_LT(took, hang_limit);
}

TEST_F(Shell, kills_a_program_that_does_not_listen) {
  const auto ready = folder_ / "ready";
  const auto took = stop_once_there(
      script(fmt::format("trap '' TERM; echo $$ > {0}.part; mv {0}.part {0}; while :; do sleep 0.05; done",
                         ready.string())),
      ready);
  EXPECT_GE(took, limits_.shell_kill_grace - std::chrono::milliseconds(20));
  EXPECT_FALSE(is_running(pids_in(ready).front()));
}

TEST_F(Shell, does_not_start_what_was_stopped_before) {
  std::stop_source stop;
  stop.request_stop();
  const Stopwatch watch;
  failure_of(run(command({"sleep", "1000"}), stop.get_token()));
  EXPECT_LT(watch.elapsed(), hang_limit);
}

TEST_F(Shell, takes_its_program_along_when_pawl_is_killed) {
  const auto ready = folder_ / "ready";
  const auto input = script(fmt::format("echo $$ > {0}.part; mv {0}.part {0}; exec sleep 1000", ready.string()));
  const pid_t pawl = ::fork();
  if (pawl == 0) {
    run(input);
    ::_exit(0);
  }
  const bool is_ready = eventually([&] { return fs::exists(ready); });
  const pid_t program = is_ready ? pids_in(ready).front() : 0;
  EXPECT_TRUE(is_running(program));
  ::kill(pawl, SIGKILL);
  ::waitpid(pawl, nullptr, 0);
  ASSERT_TRUE(is_ready);
  EXPECT_TRUE(eventually([&] { return !is_running(program); }));
}

}  // namespace
}  // namespace pawl
