// What providers say, as it is taken here.
#include <gtest/gtest.h>

#include "core/characters.h"
#include "providers/restate_answers.h"
#include "providers/stepfunctions_answers.h"

namespace pawl::providers {
namespace {

constexpr Instant now{1'800'000'000'000};

Sighting said(std::string word, Sign sign = Sign::none) { return {.run = {}, .word = std::move(word), .sign = sign}; }

TEST(Meaning, is_what_the_table_says_for_each_of_its_rows) {
  for (const ProviderState& row : provider_states) {
    SCOPED_TRACE(std::string(to_string(row.provider)) + " " + std::string(row.word));
    const ObserveRun meaning = meaning_of(row.provider, said(std::string(row.word), row.sign), now);
    EXPECT_EQ(meaning.state, row.word);
    EXPECT_EQ(meaning.sub_state, row.sub_state);
    EXPECT_EQ(meaning.ends, row.ends);
    const bool is_failure = row.ends == RunTrigger::fail || row.ends == RunTrigger::time_out;
    EXPECT_EQ(meaning.diagnostic != nullptr, is_failure);
  }
}

TEST(Meaning, of_an_unknown_word_is_that_it_runs_and_nothing_else) {
  for (Provider provider : {Provider::restate, Provider::stepfunctions})
    for (const char* word : {"", "DREAMING", "Success", "Completed", "SUCCEEDED "}) {
      const ObserveRun meaning = meaning_of(provider, said(word), now);
      EXPECT_EQ(meaning.sub_state, SubState::running) << word;
      EXPECT_FALSE(meaning.ends) << word;
    }
}

TEST(Meaning, of_an_abort_names_who_said_what) {
  Sighting sighting = said("ABORTED");
  sighting.failure = "Canceled: by hand";
  const ObserveRun meaning = meaning_of(Provider::stepfunctions, sighting, now);
  EXPECT_EQ(meaning.reason, "Canceled: by hand");
  EXPECT_EQ(meaning.last_failure, "Canceled: by hand");
  EXPECT_EQ(meaning_of(Provider::stepfunctions, said("ABORTED"), now).reason, "stepfunctions says ABORTED");
}

TEST(Meaning, of_a_failure_says_which_refusals_it_names) {
  const ApprovalId first{IdBits{1, 2}}, second{IdBits{3, 4}};
  Sighting sighting = said("FAILED");
  sighting.failure = "ApprovalRejected: pay was rejected by ada: apr_ is no id (" + first.str() + ")";
  EXPECT_EQ(meaning_of(Provider::stepfunctions, sighting, now).failed_by, std::vector{first});
  EXPECT_EQ(approvals_named_in(first.str() + second.str()), (std::vector{first, second}));
  EXPECT_EQ(approvals_named_in("out of memory"), std::vector<ApprovalId>{});
  // What the text of a refusal says comes back.
  const Decided decided{.run = {},
                        .callback = {},
                        .approval = second,
                        .gate = "pay",
                        .status = ApprovalStatus::expired,
                        .by = {},
                        .reason = {}};
  EXPECT_EQ(approvals_named_in("[500] " + refusal_text(decided)), std::vector{second});
}

TEST(KeptText, is_not_too_long_and_utf8_whatever_came) {
  EXPECT_EQ(kept_text("fine", 10), "fine");
  EXPECT_EQ(kept_text("a long text", 6), "a long");
  EXPECT_EQ(kept_text("\xff"
                      "a\xc3",
                      10),
            "?a?");
  EXPECT_EQ(kept_text("aé", 2), "a");  // not half of a character
  EXPECT_EQ(find_invalid_utf8(kept_text(std::string(5000, '\xe9'), 4000)), std::nullopt);
}

TEST(RestateAnswers, of_an_end_have_a_word_of_their_own) {
  auto word = [](const std::string& more) {
    return restate::read_rows(R"({"rows":[{"id":"inv_1","status":"completed")" + more + "}]}")->front().sighting.word;
  };
  EXPECT_EQ(word(R"(,"completion_result":"success")"), "completed");
  EXPECT_EQ(word(R"(,"completion_result":"failure","completion_failure":"[422] no")"), "failed");
  EXPECT_EQ(word(R"(,"completion_result":"failure","completion_failure":"[409] Cancelled")"), "cancelled");
  EXPECT_EQ(word(R"(,"completion_result":"failure","completion_failure":"[409] killed")"), "killed");
  EXPECT_EQ(word(""), "completed without a result");  // which no table knows: never a success
  EXPECT_EQ(find_provider_state(Provider::restate, word("")), nullptr);
}

TEST(RestateAnswers, count_attempts_and_retries_are_one_less) {
  auto retries = [](const std::string& count) {
    return restate::read_rows(R"({"rows":[{"id":"inv_1","status":"running")" + count + "}]}")->front().sighting.retries;
  };
  EXPECT_EQ(retries(""), 0);
  EXPECT_EQ(retries(R"(,"retry_count":1)"), 0);
  EXPECT_EQ(retries(R"(,"retry_count":3)"), 2);
  EXPECT_EQ(retries(R"(,"retry_count":-3)"), 0);
}

TEST(StepFunctionsAnswers, that_refuse_are_told_from_those_that_may_be_asked_again) {
  auto outcome = [](int status, const std::string& type) {
    return stepfunctions::outcome_of({.status = status, .problem = {}, .body = R"({"__type":")" + type + R"("})"}).kind;
  };
  using Kind = Outcome::Kind;
  EXPECT_EQ(outcome(400, "com.amazonaws.states#StateMachineDoesNotExist"), Kind::refused);
  EXPECT_EQ(outcome(400, "com.amazonaws.states#InvalidExecutionInput:http://x"), Kind::refused);
  EXPECT_EQ(outcome(400, "ThrottlingException"), Kind::unreachable);
  EXPECT_EQ(outcome(400, "com.amazonaws.states#ExecutionLimitExceeded"), Kind::unreachable);
  EXPECT_EQ(outcome(500, "InternalFailure"), Kind::unreachable);
  EXPECT_EQ(outcome(503, ""), Kind::unreachable);
  EXPECT_EQ(stepfunctions::outcome_of({.status = 0, .problem = "no route", .body = {}}).kind, Kind::unreachable);
}

TEST(StepFunctionsAnswers, a_list_is_the_same_whatever_its_token) {
  const std::string a = R"({"executions":[{"executionArn":"x"}],"nextToken":"1"})";
  const std::string b = R"({"executions":[{"executionArn":"x"}],"nextToken":"two"})";
  const std::string c = R"({"executions":[{"executionArn":"y"}],"nextToken":"1"})";
  EXPECT_EQ(stepfunctions::cut_token(a).hash(), stepfunctions::cut_token(b).hash());
  EXPECT_NE(stepfunctions::cut_token(a).hash(), stepfunctions::cut_token(c).hash());
  EXPECT_EQ(stepfunctions::cut_token(b).token, "two");
  EXPECT_FALSE(stepfunctions::cut_token(R"({"nextToken":"a\/b"})").is_plain());
}

}  // namespace
}  // namespace pawl::providers
