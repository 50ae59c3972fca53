#include "tools/agent.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tools/agent_session.h"
#include "tools/agent_stream.h"
#include "tools/message_id.h"
#include "tools/processes.h"
#include "tools/try_tool.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;
using boost::json::object;

std::string text_in(const Json& value, std::string_view key) {
  const Json* found = value.is_object() ? value.get_object().if_contains(key) : nullptr;
  return found && found->is_string() ? std::string(std::string_view(found->get_string())) : "";
}

// A context with the stand-in for the Claude Code CLI, outside of any sandbox.
class Agents : public testing::Test {
 protected:
  Agents() : folder_(fs::temp_directory_path() / fmt::format("pawl_agent_test_{}", ::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "sessions");
    ::setenv("FAKE_AGENT_HOME", (folder_ / "sessions").c_str(), 1);
    context_ = std::make_shared<AgentContext>(folder_ / "data");
    context_->claude = PAWL_SOURCE_DIR "/tests/agents/fake_agent.py";
    context_->sandbox_use = SandboxUse::off;
    context_->kill_grace = std::chrono::milliseconds(300);
    context_->linger_max = std::chrono::milliseconds(300);
    claude_ = make_agent_claude(context_);
    command_ = make_agent_command(context_);
  }
  ~Agents() override { fs::remove_all(folder_); }

  static object prompt(std::string_view text) { return {{"prompt", text}, {"pass_env", {"FAKE_AGENT_HOME"}}}; }
  static object with(object input, std::string_view key, Json value) {
    input[key] = std::move(value);
    return input;
  }
  Lease lease(const object& input, int attempt = 1) {
    Lease out = lease_of("agent.claude", boost::json::serialize(input));
    out.attempt = attempt;
    return out;
  }
  ToolResult run(const object& input, int attempt = 1, std::stop_token stop = {}) {
    return claude_->run(lease(input, attempt), test_now, std::move(stop));
  }
  ToolResult program(std::string_view script, object input = {}) {
    input["prompt"] = "do it";
    input["command"] = {"sh", "-c", script};
    return command_->run(lease(input), test_now, {});
  }
  Json done(const ToolResult& result) { return json_output_of(result); }
  // What the mood `echo` was given.
  Json given(const ToolResult& result) { return parse_json(text_in(done(result), "result")).value_or(Json{}); }
  std::string log(LogStream stream = LogStream::stdout_, int attempt = 1) {
    std::string out;
    LogQuery query{.attempt = attempt, .stream = stream};
    while (auto part = context_->logs.read(lease({}).run, {"one"}, query)) {
      out += part->text;
      if (part->next == query.after) break;
      query.after = part->next;
    }
    return out;
  }

  fs::path folder_;
  std::shared_ptr<AgentContext> context_;
  std::unique_ptr<Tool> claude_, command_;
};

TEST_F(Agents, says_what_it_did_and_what_that_cost) {
  const auto result = run(prompt("work on it"));
  const Json output = done(result);
  EXPECT_EQ(text_in(output, "result"), "did: on it");
  EXPECT_EQ(text_in(output, "cost_usd"), "0.25");
  EXPECT_EQ(text_in(output, "session_id"), uuid_of(lease({}).run, {"one"}));
  EXPECT_EQ(output.at("num_turns"), Json(3));
  EXPECT_EQ(output.at("usage").at("output_tokens"), Json(20));
  EXPECT_EQ(std::get<Completed>(result).cost, Money{250'000});
  EXPECT_NE(log().find("\"working\""), std::string::npos);
}

TEST_F(Agents, is_given_the_flags_that_the_step_asks_for) {
  auto input = with(with(with(prompt("echo"), "max_budget_usd", "2.50"), "model", "opus"), "allowed_tools",
                    {"Bash(git *)", "Read"});
  const Json got = given(run(with(input, "permission_mode", "plan")));
  const Json& flags = got.at("flags");
  EXPECT_EQ(flags.at("max_budget_usd"), Json("2.50"));
  EXPECT_EQ(flags.at("model"), Json("opus"));
  EXPECT_EQ(flags.at("permission_mode"), Json("plan"));
  EXPECT_EQ(flags.at("allowedTools"), Json("Bash(git *),Read"));
  EXPECT_EQ(flags.at("output_format"), Json("stream-json"));
  EXPECT_EQ(flags.at("mcp_config"), Json(R"({"mcpServers":{}})"));
  EXPECT_EQ(flags.at("strict_mcp_config"), Json(true));
  EXPECT_TRUE(flags.at("resume").is_null());
  EXPECT_EQ(got.at("message"), Json("echo"));
}

TEST_F(Agents, is_given_nothing_of_our_environment_that_nobody_named) {
  ::setenv("AGENT_TEST_HIDDEN", "x", 1);
  const Json got = given(run(with(prompt("echo"), "env", {{"OWN", "y"}})));
  EXPECT_FALSE(got.at("env").get_object().contains("AGENT_TEST_HIDDEN"));
  EXPECT_EQ(got.at("env").at("OWN"), Json("y"));
  EXPECT_EQ(got.at("env").at("PAWL_STEP_ID"), Json("one"));
}

TEST_F(Agents, is_given_a_way_to_the_gate_and_its_key_only_in_the_environment) {
  context_->access = [](const Lease&, const std::string& task) {
    return AgentAccess{"http://127.0.0.1:1/mcp", "pawl_lease_" + task};
  };
  const Json got = given(run(with(prompt("echo"), "task_id", "task_7")));
  const auto config = text_in(got.at("flags"), "mcp_config");
  EXPECT_NE(config.find("http://127.0.0.1:1/mcp"), std::string::npos);
  EXPECT_NE(config.find("Bearer ${PAWL_LEASE_KEY}"), std::string::npos);
  EXPECT_EQ(config.find("pawl_lease_task_7"), std::string::npos);
  EXPECT_EQ(got.at("flags").at("allowedTools"), Json("mcp__pawl"));
  EXPECT_EQ(got.at("env").at("PAWL_LEASE_KEY"),
            Json("[secret PAWL_LEASE_KEY]"));  // given, and taken out of what comes back
  EXPECT_EQ(log().find("pawl_lease_task_7"), std::string::npos);
}

TEST_F(Agents, does_not_work_without_the_tools_that_it_was_given) {
  context_->access = [](const Lease&, const std::string&) { return AgentAccess{"http://127.0.0.1:1/mcp", "key"}; };
  const auto failed = failure_of(run(prompt("toolless")));
  EXPECT_EQ(failed.error_code, "AGENT_FAILED");
  EXPECT_EQ(failed.retryable, true);
  EXPECT_NE(failed.message.find("could not connect to pawl's tools"), std::string::npos) << failed.message;
}

TEST_F(Agents, works_without_tools_that_it_was_not_given) {
  EXPECT_EQ(text_in(done(run(with(prompt("toolless"), "mcp", false))), "result"), "worked without");
}

TEST_F(Agents, has_no_settings_of_its_folder) {
  EXPECT_EQ(given(run(prompt("echo"))).at("flags").at("setting_sources"), Json("user"));
}

TEST_F(Agents, has_settings_of_its_folder_when_the_step_says_so) {
  EXPECT_EQ(given(run(with(prompt("echo"), "project_settings", true))).at("flags").at("setting_sources"),
            Json("user,project,local"));
}

TEST_F(Agents, an_empty_prompt_is_refused) { expect_failure(run(prompt(" \n")), "TOOL_INVALID_ARGUMENTS", "prompt"); }

TEST_F(Agents, without_a_server_a_demanded_gate_is_refused) {
  expect_failure(run(with(prompt("work"), "mcp", true)), "TOOL_INVALID_ARGUMENTS", "mcp");
}

TEST_F(Agents, a_question_file_and_exit_0_is_a_question) {
  const auto result = run(prompt("ask"));
  ASSERT_TRUE(std::holds_alternative<Asked>(result)) << describe(result);
  const auto question = parse_json(std::get<Asked>(result).question).value();
  EXPECT_EQ(text_in(question, "text"), "Which way?");
  EXPECT_EQ(text_in(question, "session_id"), uuid_of(lease({}).run, {"one"}));
}

TEST_F(Agents, a_question_that_is_no_json_is_asked_as_text) {
  const auto result = run(prompt("ask how come?"));
  ASSERT_TRUE(std::holds_alternative<Asked>(result)) << describe(result);
  EXPECT_EQ(text_in(parse_json(std::get<Asked>(result).question).value(), "text"), "how come?");
}

TEST_F(Agents, an_answer_resumes_the_session_and_costs_are_counted_once) {
  run(prompt("ask"));
  Lease again = lease(prompt("ask"), 2);
  again.question = R"({"text":"Which way?"})";
  again.answer = R"("echo left")";
  const auto result = claude_->run(again, test_now, {});
  const Json got = given(result);
  EXPECT_EQ(got.at("message"), Json("echo left"));
  EXPECT_EQ(got.at("flags").at("resume"), Json(uuid_of(again.run, {"one"})));
  EXPECT_EQ(got.at("messages").as_array().size(), 2U);
  // The session says 0.50 now. The question could not carry its 0.25: the completion tells both.
  EXPECT_EQ(std::get<Completed>(result).cost, Money{500'000});
  EXPECT_EQ(text_in(done(result), "cost_usd"), "0.25");
}

TEST_F(Agents, a_session_of_another_run_is_resumed_and_its_earlier_turns_are_not_paid_again) {
  const auto session = uuid_of(lease({}).run, {"one"});
  run(prompt("work"));
  Lease other = lease(with(with(prompt("echo more"), "session_id", Json(session)), "resume", true));
  other.run = RunId{{0x0190000000007000, 0x8000000000000002}};
  const auto result = claude_->run(other, test_now, {});
  EXPECT_EQ(given(result).at("message"), Json("echo more"));
  EXPECT_EQ(given(result).at("flags").at("resume"), Json(session));
  EXPECT_EQ(std::get<Completed>(result).cost, Money{250'000});
}

TEST_F(Agents, a_retry_goes_on_with_the_session) {
  const auto first = failure_of(run(prompt("fail_once")));
  EXPECT_EQ(first.error_code, "AGENT_FAILED");
  EXPECT_EQ(first.retryable, true);
  const Json output = done(run(prompt("fail_once"), 2));
  EXPECT_TRUE(text_in(output, "result").starts_with("heard: You were interrupted"));
}

TEST_F(Agents, a_session_that_is_gone_is_begun_anew) {
  run(prompt("fail_once"));
  fs::remove_all(folder_ / "sessions");
  fs::create_directories(folder_ / "sessions");
  EXPECT_EQ(text_in(done(run(prompt("work again"), 2)), "result"), "did: again");
}

TEST_F(Agents, a_session_that_was_started_and_never_heard_of_is_begun_under_another_name) {
  AgentSession session = AgentSession::load(*context_, lease({}), "");
  context_->logs.begin({lease({}).run, {"one"}, 1});
  session.was_started = true;
  session.save(*context_, lease({}));
  std::ofstream(folder_ / "sessions" / session.id) << R"({"cost":0,"messages":[]})";  // the name is taken
  EXPECT_EQ(text_in(done(run(prompt("work on"), 2)), "result"), "did: on");
}

TEST_F(Agents, edits_files_by_default_and_runs_commands_only_in_a_sandbox) {
  const Json flags = given(run(prompt("echo"))).at("flags");
  EXPECT_EQ(flags.at("permission_mode"), Json("acceptEdits"));
  EXPECT_TRUE(flags.at("allowedTools").is_null());
}

TEST_F(Agents, one_that_lists_tools_has_those_and_no_others) {
  const Json flags = given(run(with(prompt("echo"), "allowed_tools", {"Read"}))).at("flags");
  EXPECT_EQ(flags.at("permission_mode"), Json("dontAsk"));
  EXPECT_EQ(flags.at("allowedTools"), Json("Read"));
}

TEST_F(Agents, says_what_it_was_not_permitted) {
  const Json denials = done(run(prompt("denied 30"))).at("permission_denials");
  ASSERT_EQ(denials.as_array().size(), agent_denials_max);
  EXPECT_EQ(denials.as_array()[0], (Json{{"tool", "Bash"}, {"input", {{"command", "git push"}}}}));
}

TEST_F(Agents, says_at_its_end_what_it_was_not_permitted_before_it_asked) {
  EXPECT_TRUE(std::holds_alternative<Asked>(run(prompt("ask_after_denial"))));
  const Json denials = done(run(prompt("ask_after_denial"), 2)).at("permission_denials");
  EXPECT_EQ(denials, *parse_json(R"([{"tool": "Bash", "input": {"command": "git push"}}])"));
}

TEST_F(Agents, says_at_its_end_what_it_was_not_permitted_in_an_attempt_without_a_result) {
  expect_failure(run(prompt("die_after_denial")), "AGENT_FAILED", "without a result");
  const Json denials = done(run(prompt("die_after_denial"), 2)).at("permission_denials");
  EXPECT_EQ(denials, *parse_json(R"([{"tool": "Write", "input": null}])"));
}

TEST_F(Agents, is_error_goes_before_the_exit_code) {
  const auto overloaded = failure_of(run(prompt("error_exit_0 529")));
  EXPECT_EQ(overloaded.error_code, "AGENT_FAILED");
  EXPECT_EQ(overloaded.retryable, true);
  EXPECT_NE(overloaded.message.find("529"), std::string::npos);
}

TEST_F(Agents, an_error_that_will_come_again_is_not_retried) {
  EXPECT_EQ(failure_of(run(prompt("error_exit_0 403"))).retryable, false);
}
TEST_F(Agents, too_many_turns_is_no_reason_to_retry) {
  EXPECT_EQ(failure_of(run(prompt("max_turns"))).retryable, false);
}
TEST_F(Agents, success_with_a_bad_exit_code_is_a_failure) {
  expect_failure(run(prompt("exit_3")), "AGENT_FAILED", "exited with 3");
}
TEST_F(Agents, no_result_is_a_failure_that_may_pass) {
  const auto failed = failure_of(run(prompt("no_result")));
  EXPECT_EQ(failed.error_code, "AGENT_FAILED");
  EXPECT_EQ(failed.retryable, true);
}
TEST_F(Agents, dying_in_the_middle_of_a_line_is_no_result) {
  expect_failure(run(prompt("die_mid_line")), "AGENT_FAILED", "signal 9");
  EXPECT_TRUE(log().ends_with("\"resu"));
}
TEST_F(Agents, its_own_word_that_the_budget_is_exhausted_is_terminal) {
  const auto failed = failure_of(run(with(prompt("budget"), "max_budget_usd", "1.00")));
  EXPECT_EQ(failed.error_code, "AGENT_BUDGET_EXCEEDED");
  EXPECT_EQ(failed.cost, Money{5'250'000});
}
TEST_F(Agents, a_call_that_waits_for_a_person_is_a_question) {
  const auto result = run(prompt("defer"));
  ASSERT_TRUE(std::holds_alternative<Asked>(result)) << describe(result);
  EXPECT_NE(std::get<Asked>(result).question.find("toolu_1"), std::string::npos);
}

TEST_F(Agents, who_spends_too_much_is_ended_while_it_runs) {
  const auto failed = failure_of(run(with(prompt("overspend"), "max_budget_usd", "3.00")));
  EXPECT_EQ(failed.error_code, "AGENT_BUDGET_EXCEEDED");
  EXPECT_GT(failed.cost, Money{3'000'000});
  EXPECT_LT(failed.cost, Money{1'000'000'000}) << "which it would have spent";
  // And has nothing left for another try.
  expect_failure(run(with(prompt("work"), "max_budget_usd", "3.00"), 2), "AGENT_BUDGET_EXCEEDED");
}

TEST_F(Agents, who_will_not_go_after_its_result_is_helped) {
  Stopwatch watch;
  EXPECT_EQ(text_in(done(run(prompt("linger"))), "result"), "done, but I stay");
  EXPECT_LT(watch.elapsed(), hang_limit);
}

TEST_F(Agents, told_to_stop_it_may_tidy_up) {
  context_->kill_grace = hang_limit;
  std::stop_source stop;
  const auto file = folder_ / "polite";
  std::jthread stopper([&] {
    EXPECT_TRUE(eventually([&] { return fs::exists(file); }));
    stop.request_stop();
  });
  failure_of(run(prompt("polite " + file.string()), 1, stop.get_token()));
  EXPECT_TRUE(fs::exists(file.string() + ".bye"));
}

TEST_F(Agents, who_ignores_that_is_killed) {
  std::stop_source stop;
  const auto file = folder_ / "stubborn";
  Stopwatch watch;
  std::jthread stopper([&] {
    EXPECT_TRUE(eventually([&] { return fs::exists(file); }));
    watch = Stopwatch();
    stop.request_stop();
  });
  failure_of(run(prompt("stubborn " + file.string()), 1, stop.get_token()));
  EXPECT_GE(watch.elapsed(), context_->kill_grace);
}

TEST_F(Agents, nothing_that_it_has_forked_outlives_it) {
  const auto file = folder_ / "children";
  EXPECT_EQ(text_in(done(run(prompt("fork_and_leave " + file.string()))), "result"), "left children behind");
  const auto pids = pids_in(file);
  ASSERT_EQ(pids.size(), 3U);
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([&] { return !is_running(pid); })) << pid;
  EXPECT_TRUE(fs::is_empty(folder_ / "data" / "processes"));
}

TEST_F(Agents, what_a_process_that_died_has_left_is_found_and_ended) {
  const auto file = folder_ / "children";
  const pid_t other = ::fork();
  if (other == 0) {
    run(prompt("fork " + file.string()));
    ::_exit(0);
  }
  EXPECT_TRUE(eventually([&] { return pids_in(file).size() == 4; }));
  const auto pids = pids_in(file);
  // While it lives nobody touches what is its own.
  EXPECT_EQ(context_->ledger.end_leftovers(), 0);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  ASSERT_EQ(pids.size(), 4u);
  // The agent itself dies with whoever started it, its children do not.
  EXPECT_TRUE(eventually([&] { return !is_running(pids[3]); }));
  EXPECT_TRUE(is_running(pids[0]));
  EXPECT_GE(context_->ledger.end_leftovers(), 3);
  for (const pid_t pid : pids) EXPECT_TRUE(eventually([&] { return !is_running(pid); })) << pid;
  EXPECT_TRUE(fs::is_empty(folder_ / "data" / "processes"));
}

TEST_F(Agents, broken_lines_are_survived_and_kept) {
  EXPECT_EQ(text_in(done(run(prompt("broken_json"))), "result"), "still here");
  EXPECT_NE(log().find("not json at all"), std::string::npos);
}
TEST_F(Agents, a_line_that_comes_byte_by_byte_is_one_line) {
  EXPECT_EQ(text_in(done(run(prompt("slow_pieces"))), "result"), "p\u00ebces");
}
TEST_F(Agents, a_huge_line_is_skipped_and_kept) {
  EXPECT_EQ(text_in(done(run(prompt("huge_line"))), "result"), "after the huge line");
  EXPECT_GT(log().size(), std::size_t{6} << 20);
}
TEST_F(Agents, a_flood_is_read_to_its_end) {
  EXPECT_EQ(text_in(done(run(prompt("flood 3000"))), "result"), "flooded");
  EXPECT_GT(log().size(), std::size_t{12'000'000});
}

TEST_F(Agents, secrets_of_the_step_stand_in_no_log) {
  Lease given = lease(with(prompt("leak"), "env", {{"TOKEN", "s3cr3t-t0ken-value"}}));
  given.shown = boost::json::serialize(with(prompt("leak"), "env", {{"TOKEN", "${{ secrets.TOKEN }}"}}));
  const auto result = claude_->run(given, test_now, {});
  EXPECT_EQ(text_in(done(result), "result"), "token [secret TOKEN]");
  EXPECT_EQ(log().find("s3cr3t"), std::string::npos);
  EXPECT_NE(log(LogStream::stderr_).find("[secret TOKEN]"), std::string::npos);
}

TEST_F(Agents, what_cannot_be_run_is_said) {
  context_->claude = "/nowhere/claude";
  expect_failure(run(prompt("work")), "TOOL_INVALID_ARGUMENTS", "/nowhere/claude");
}
TEST_F(Agents, input_that_does_not_fit_is_refused) {
  expect_failure(run(with(prompt("work"), "session_id", "not-a-uuid")), "TOOL_INVALID_ARGUMENTS", "UUID");
  expect_failure(run(with(prompt("work"), "resume", true)), "TOOL_INVALID_ARGUMENTS", "session_id");
  expect_failure(run(with(prompt("work"), "folder", "here")), "TOOL_INVALID_ARGUMENTS", "folder");
  expect_failure(run(with(prompt("work"), "sandbox", "perhaps")), "TOOL_INVALID_ARGUMENTS", "sandbox");
  expect_failure(run(with(prompt("work"), "permission_mode", "yolo")), "TOOL_INVALID_ARGUMENTS", "permission_mode");
}

TEST_F(Agents, any_program_can_be_one) {
  const auto result = program(R"(cat >prompt
    echo "some words"
    echo '{"type":"session","session_id":"mine"}'
    echo '{"type":"cost","cost_usd":"0.10"}'
    echo '{"type":"cost","cost_usd":0.30,"usage":{"tokens":5}}'
    echo "{\"type\":\"result\",\"result\":\"$(cat prompt)\",\"output\":{\"a\":1},\"num_turns\":2}")");
  const Json output = done(result);
  EXPECT_EQ(text_in(output, "result"), "do it");
  EXPECT_EQ(text_in(output, "session_id"), "mine");
  EXPECT_EQ(output.at("output").at("a"), Json(1));
  EXPECT_EQ(std::get<Completed>(result).cost, Money{300'000});
}
TEST_F(Agents, any_program_can_ask) {
  const auto result = program(R"(echo '{"text":"sure?"}' >"$PAWL_QUESTION_FILE")");
  ASSERT_TRUE(std::holds_alternative<Asked>(result)) << describe(result);
}
TEST_F(Agents, any_program_can_fail_in_its_own_words) {
  const auto failed = failure_of(
      program(R"(echo '{"type":"result","is_error":true,"message":"no luck","error_code":"OWN","retryable":false}')"));
  EXPECT_EQ(failed.error_code, "OWN");
  EXPECT_EQ(failed.message, "no luck");
  EXPECT_EQ(failed.retryable, false);
}
TEST_F(Agents, a_program_is_ended_when_its_costs_pass_the_budget) {
  const auto failed =
      failure_of(program(R"(echo '{"type":"cost","cost_usd":"1.50"}'; sleep 100)", {{"max_budget_usd", "1.00"}}));
  EXPECT_EQ(failed.error_code, "AGENT_BUDGET_EXCEEDED");
  EXPECT_EQ(failed.cost, Money{1'500'000});
}

TEST(AgentStream, costs_are_the_last_total_and_never_a_sum) {
  AgentStream stream(AgentDialect::claude);
  stream.feed("{\"type\":\"result\",\"total_cost_usd\":0.1}\n{\"type\":\"result\",\"total_cost_usd\":0.25}\n");
  EXPECT_EQ(stream.story().total_cost, Money{250'000});
}
TEST(AgentStream, any_cut_of_a_stream_reads_the_same) {
  const std::string text =
      "{\"type\":\"system\",\"session_id\":\"s\"}\nnoise\n{\"type\":\"result\",\"result\":\"r\",\"num_turns\":4}\n";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    AgentStream stream(AgentDialect::claude);
    stream.feed(std::string_view(text).substr(0, cut));
    stream.feed(std::string_view(text).substr(cut));
    ASSERT_TRUE(stream.story().result) << cut;
    EXPECT_EQ(stream.story().session_id, "s");
    EXPECT_EQ(stream.story().turns, 4);
    EXPECT_EQ(stream.story().lines_broken, 1U);
  }
}
TEST(AgentStream, a_cli_that_could_not_connect_to_our_tools_says_so_when_it_begins) {
  const auto says = [](std::string_view name, std::string_view status) {
    AgentStream stream(AgentDialect::claude);
    stream.feed(fmt::format(
        "{{\"type\":\"system\",\"subtype\":\"init\",\"mcp_servers\":[7,{{\"name\":\"{}\",\"status\":\"{}\"}}]}}\n",
        name, status));
    return stream.story().has_lost_tools;
  };
  EXPECT_TRUE(says("pawl", "failed"));
  EXPECT_FALSE(says("pawl", "pending"));
  EXPECT_FALSE(says("pawl", "connected"));
  EXPECT_FALSE(says("other", "failed"));
}
TEST(MessageIdFinder, finds_the_id_wherever_it_stands_and_however_it_comes) {
  const std::pair<std::string_view, std::string_view> messages[] = {
      {R"({"id":7,"params":{"id":8}})", "7"},
      {R"({"params":{"id":8,"x":[{"id":9}]},"id":-7})", "-7"},
      {R"({"params":"id","id":"a\"b"})", R"("a\"b")"},
      {R"({"params":{"id":8}})", "null"},
      {R"({"id":null,"x":1})", "null"},
      {R"({"id":{"id":1},"x":[1,2]})", "null"},
      {R"([{"id":1}])", "null"},
      {R"(nonsense)", "null"},
      {R"({"id":7,"params":)", "7"},
      {R"({"id":7}{"id":8})", "7"}};
  for (const auto& [message, id] : messages)
    for (std::size_t piece = 1; piece <= message.size(); ++piece) {
      MessageIdFinder finder;
      for (std::size_t at = 0; at < message.size(); at += piece) finder.feed(message.substr(at, piece));
      EXPECT_EQ(finder.id(), id) << message << " in pieces of " << piece;
    }
  MessageIdFinder finder;
  finder.feed("{\"id\":\"" + std::string(300, 'x') + "\"}");
  EXPECT_EQ(finder.id(), "null") << "half an id is another one";
}
TEST(LineSplitter, a_line_over_the_limit_is_skipped_whole_however_it_comes) {
  for (const std::size_t piece : {1U, 3U, 7U, 64U}) {
    LineSplitter lines(8);
    std::vector<std::string> got;
    std::string skipped;
    const std::string text = "short\n0123456789abcdef\n12345678\n123456789\nend\n";
    for (std::size_t at = 0; at < text.size(); at += piece)
      lines.feed(
          std::string_view(text).substr(at, piece), [&](std::string_view line) { got.emplace_back(line); },
          [&](std::string_view part, bool is_end) { skipped.append(part).append(is_end ? "|" : ""); });
    EXPECT_EQ(got, (std::vector<std::string>{"short", "12345678", "end"})) << piece;
    EXPECT_EQ(lines.lines_skipped(), 2U) << piece;
    EXPECT_EQ(skipped, "0123456789abcdef|123456789|") << piece;
  }
}

}  // namespace
}  // namespace pawl
