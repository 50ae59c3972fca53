#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tools/try_tool.h"

namespace pawl {
namespace {

std::string with(std::string_view jq, std::string_view input = "null") {
  std::string text = R"({"jq":)";
  append_json_string(text, jq);
  return text + R"(,"input":)" + std::string(input) + "}";
}

// The processes that this one has started and not yet reaped.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(task.path() / "children");
    for (pid_t pid; list >> pid;) found.push_back(pid);
  }
  return found;
}

class Transform : public testing::Test {
 protected:
  ToolResult jq(std::string_view program, std::string_view input = "null") {
    return try_tool(*tool_, with(program, input));
  }

  std::unique_ptr<Tool> tool_ = make_transform({});
};

TEST_F(Transform, gives_the_one_result) {
  EXPECT_EQ(output_of(jq(".a.b", R"({"a": {"b": [1, 2.5, "x", null, true]}})")), R"([1,2.5,"x",null,true])");
}

TEST_F(Transform, gives_null_when_there_is_no_result) { EXPECT_EQ(output_of(jq("empty")), "null"); }

TEST_F(Transform, gives_a_list_when_there_are_several_results) {
  EXPECT_EQ(output_of(jq(".[]", "[1, [2], 3]")), "[1,[2],3]");
}

TEST_F(Transform, runs_over_null_when_there_is_no_input) {
  EXPECT_EQ(output_of(try_tool(*tool_, R"({"jq": "."})")), "null");
}

TEST_F(Transform, keeps_text_of_any_script) {
  EXPECT_EQ(output_of(jq(".", R"("Grüße, 世界 \u0000 \ud83d\ude00")")), "\"Grüße, 世界 \\u0000 😀\"");
}

TEST_F(Transform, gives_the_same_for_the_same_program_again_and_again) {
  for (int i = 0; i < 20; ++i) EXPECT_EQ(output_of(jq(". * 2", std::to_string(i))), std::to_string(2 * i));
}

TEST_F(Transform, says_why_a_program_does_not_compile) {
  expect_failure(jq("nonsense(1)"), "TOOL_INVALID_ARGUMENTS", "nonsense/1 is not defined");
  expect_failure(jq(".a | | .b"), "TOOL_INVALID_ARGUMENTS", "syntax error");
}

TEST_F(Transform, says_what_went_wrong_in_a_program) {
  expect_failure(jq(".a", "[1]"), "TOOL_INVALID_ARGUMENTS", "Cannot index array");
  expect_failure(jq(R"(error("no such thing"))"), "TOOL_INVALID_ARGUMENTS", "no such thing");
  expect_failure(jq(R"("given up" | halt_error)"), "TOOL_INVALID_ARGUMENTS", "given up");
  EXPECT_EQ(output_of(jq("1")), "1") << "the helper goes on";
}

TEST_F(Transform, refuses_arguments_of_the_wrong_kind_by_name) {
  expect_failure(try_tool(*tool_, "{}"), "TOOL_INVALID_ARGUMENTS", "`jq` is required");
  expect_failure(try_tool(*tool_, R"({"jq": 1})"), "TOOL_INVALID_ARGUMENTS", "`jq` must be text");
  expect_failure(jq(std::string_view("1\0", 2)), "TOOL_INVALID_ARGUMENTS", "does not compile");
}

class TransformLoop : public testing::TestWithParam<const char*> {};

TEST_P(TransformLoop, ends_when_its_time_is_up_and_is_not_tried_again) {
  const auto tool =
      make_transform({.transform_cpu_max = std::chrono::milliseconds(200), .transform_wall_max = hang_limit});
  const auto failed = failure_of(try_tool(*tool, with(GetParam())));
  EXPECT_EQ(failed.error_code, "TOOL_TIMEOUT") << failed.message;
  EXPECT_EQ(failed.retryable, false);
  EXPECT_EQ(output_of(try_tool(*tool, with("1"))), "1") << "the next one is not harmed";
}

INSTANTIATE_TEST_SUITE_P(Programs, TransformLoop,
                         testing::Values("def f: f; f", "last(repeat(1))", "last(range(1e12))", "until(false; .)",
                                         "[limit(3; repeat(empty))]"));

class TransformBomb : public testing::TestWithParam<const char*> {};

TEST_P(TransformBomb, ends_at_a_limit) {
  const auto tool = make_transform({.transform_cpu_max = std::chrono::seconds(3),
                                    .transform_wall_max = hang_limit,
                                    .transform_memory_bytes_max = std::size_t{64} << 20});
  const auto failed = failure_of(try_tool(*tool, with(GetParam())));
  if (is_sanitized)
    EXPECT_FALSE(failed.error_code.empty());  // memory cannot be limited there; some other limit holds
  else
    EXPECT_EQ(failed.error_code, "TOOL_INVALID_ARGUMENTS") << failed.message;
  EXPECT_EQ(output_of(try_tool(*tool, with("1"))), "1");
}

INSTANTIATE_TEST_SUITE_P(Programs, TransformBomb,
                         testing::Values("[range(1e12)]", R"("0123456789" * 1e8 | length)", "def f: [., .] | f; 1 | f",
                                         R"([limit(40; repeat("x")) ] | reduce range(40) as $i (.; . + .) | length)"));

TEST_F(Transform, refuses_results_that_are_too_large) {
  expect_failure(jq("[range(300000)]"), "TOOL_OUTPUT_TOO_LARGE");
  expect_failure(jq("range(1e9)"), "TOOL_OUTPUT_TOO_LARGE");
}

TEST_F(Transform, refuses_results_nested_deeper_than_any_reader_follows) {
  expect_failure(jq("reduce range(100) as $i (1; [.])"), "TOOL_INVALID_ARGUMENTS", "cannot be kept");
}

TEST_F(Transform, sees_neither_environment_nor_files) {
  ::setenv("PAWL_TEST_SECRET", "swordfish", 1);
  EXPECT_EQ(output_of(jq("env")), "{}");
  EXPECT_EQ(output_of(jq("$ENV")), "{}");
  EXPECT_EQ(output_of(jq("input_filename")), "null");

  const auto file = std::filesystem::temp_directory_path() / fmt::format("pawl_secret_{}.json", ::getpid());
  std::ofstream(file) << R"({"secret": "swordfish"})";
  const auto program = fmt::format(R"(import "{}" as $x {{search: "{}"}}; $x)", file.stem().string(), "/tmp");
  expect_failure(jq(program), "TOOL_INVALID_ARGUMENTS", "");
  EXPECT_EQ(failure_of(jq(program)).message.find("swordfish"), std::string::npos);
  std::filesystem::remove(file);
}

TEST_F(Transform, refuses_whatever_reads_modules) {
  for (const char* program : {R"(import "a" as $x; $x)", R"(include "a"; f)", R"(  # a comment
          import "a" as a {search: "/etc"}; 1)",
                              R"(module {name: "m"}; import "a" as a; 1)", R"("a" | modulemeta)",
                              "# \\\n1\nimport \"a\" as a; 1", "#\r\n\timport\"a\"as a;1"})
    expect_failure(jq(program), "TOOL_INVALID_ARGUMENTS", "reads its `input` and no files");
  EXPECT_EQ(output_of(jq(R"({import: 1, "include": 2} | .import + .include)")), "3");
  EXPECT_EQ(output_of(jq("def important: 4; important")), "4");
}

TEST_F(Transform, ends_soon_after_it_is_told_to_stop) {
  std::stop_source stop;
  std::jthread stopper([&] {
    EXPECT_TRUE(eventually([&] { return !children().empty(); }));
    stop.request_stop();
  });
  const auto tool = make_transform({.transform_cpu_max = 2 * hang_limit, .transform_wall_max = 2 * hang_limit});
  const Stopwatch watch;
  failure_of(try_tool(*tool, with("def f: f; f"), stop.get_token()));
  EXPECT_LT(watch.elapsed(), hang_limit);
}

TEST_F(Transform, says_that_the_machine_is_overloaded_when_only_the_wall_clock_ran_out) {
  const auto tool =
      make_transform({.transform_cpu_max = hang_limit, .transform_wall_max = std::chrono::milliseconds(100)});
  const auto failed = failure_of(try_tool(*tool, with("def f: f; f")));
  EXPECT_EQ(failed.error_code, "TOOL_TIMEOUT");
  EXPECT_EQ(failed.retryable, std::nullopt) << "it may do better next time";
}

TEST_F(Transform, serves_many_threads_at_once) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const int number = t * 1000 + i;
        EXPECT_EQ(output_of(jq(". + 1", std::to_string(number))), std::to_string(number + 1));
      }
    });
}

TEST_F(Transform, is_not_harmed_when_an_idle_helper_is_killed) {
  EXPECT_EQ(output_of(jq("1")), "1");
  const auto helpers = children();
  ASSERT_FALSE(helpers.empty());
  for (const pid_t pid : helpers) ::kill(pid, SIGKILL);
  for (const pid_t pid : helpers)
    EXPECT_TRUE(eventually([&] {
      std::ifstream stat(fmt::format("/proc/{}/stat", pid));
      std::string text;
      std::getline(stat, text);
      return text.contains(") Z ");
    }));
  EXPECT_EQ(output_of(jq("2")), "2");
}

TEST_F(Transform, takes_its_helpers_along_when_it_goes) {
  EXPECT_EQ(output_of(jq("1")), "1");
  tool_.reset();
  EXPECT_TRUE(children().empty());
}

}  // namespace
}  // namespace pawl
