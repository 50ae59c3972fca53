// Lists of running executions, read page by page while they change.
#include "providers/running_list.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <random>
#include <set>

namespace pawl::providers::stepfunctions {
namespace {

// Lists as AWS does: newest first, and a token says behind which execution a page begins.
class Listing {
 public:
  explicit Listing(std::size_t page) : page_(page) {}

  void begin() { running_.insert(++last_); }
  void end(int execution) { running_.erase(execution); }
  const std::set<int>& running() const { return running_; }
  int rounds() const { return rounds_; }
  int asked() const { return asked_; }
  void forget_tokens() { valid_from_ = asked_; }
  void fail(std::string kind) { failure_ = std::move(kind); }

  RunningList::Ask ask() {
    return [this](const std::vector<std::string>& tokens) {
      ++rounds_;
      std::vector<Response> out;
      for (const std::string& token : tokens) out.push_back(answer(token));
      return out;
    };
  }

 private:
  Response answer(const std::string& token) {
    ++asked_;
    if (!failure_.empty()) return {.status = 400, .problem = {}, .body = "{\"__type\":\"" + failure_ + "\"}"};
    int behind = last_ + 1, made = asked_;
    if (!token.empty()) std::sscanf(token.c_str(), "%d-%d", &behind, &made);
    if (made <= valid_from_ && !token.empty())
      return {.status = 400, .problem = {}, .body = R"({"__type":"InvalidToken"})"};
    std::string listed;
    int at = behind;
    std::size_t count = 0;
    for (auto it = std::make_reverse_iterator(running_.lower_bound(behind)); it != running_.rend() && count < page_;
         ++it, ++count) {
      listed += fmt::format("{}{{\"executionArn\":\"{}\"}}", count ? "," : "", *it);
      at = *it;
    }
    const bool is_more = count == page_ && *running_.begin() < at;
    // Another token each time.
    return {.status = 200,
            .problem = {},
            .body = fmt::format("{{\"executions\":[{}]{}}}", listed,
                                is_more ? fmt::format(",\"nextToken\":\"{}-{}\"", at, asked_) : "")};
  }

  const std::size_t page_;
  std::set<int> running_;
  int last_ = 0, rounds_ = 0, asked_ = 0, valid_from_ = 0;
  std::string failure_;
};

std::set<int> listed(const RunningList& list) {
  std::set<int> out;
  for (std::string_view each : list.executions()) out.insert(std::stoi(std::string(each)));
  return out;
}

RunningList::Read read(RunningList& list, Listing& of) {
  Response problem;
  return list.read(of.ask(), problem);
}

TEST(RunningList, has_all_that_run_and_asks_for_all_pages_at_once_from_then_on) {
  Listing listing(10);
  for (int i = 0; i < 95; ++i) listing.begin();
  RunningList list;
  ASSERT_EQ(read(list, listing), RunningList::Read::done);
  EXPECT_EQ(listed(list), listing.running());
  EXPECT_TRUE(list.has_changed());
  const int before = listing.rounds();
  ASSERT_EQ(read(list, listing), RunningList::Read::done);
  EXPECT_EQ(listing.rounds() - before, 1);
  EXPECT_FALSE(list.has_changed());
  EXPECT_EQ(list.pages(), 10U);
}

TEST(RunningList, what_ends_is_missed_in_one_round) {
  Listing listing(10);
  for (int i = 0; i < 95; ++i) listing.begin();
  RunningList list;
  read(list, listing);
  for (int each : {1, 42, 95}) listing.end(each);
  const int before = listing.rounds();
  ASSERT_EQ(read(list, listing), RunningList::Read::done);
  EXPECT_EQ(listing.rounds() - before, 1);
  EXPECT_TRUE(list.has_changed());
  EXPECT_EQ(listed(list), listing.running());
}

TEST(RunningList, what_begins_is_found_in_two_rounds_and_pages_do_not_pile_up) {
  Listing listing(10);
  for (int i = 0; i < 95; ++i) listing.begin();
  RunningList list;
  read(list, listing);
  for (int look = 0; look < 50; ++look) {
    listing.begin();
    listing.end(*listing.running().begin());
    const int before = listing.rounds();
    ASSERT_EQ(read(list, listing), RunningList::Read::done);
    EXPECT_LE(listing.rounds() - before, 2);
    EXPECT_EQ(listed(list), listing.running());
    EXPECT_LE(list.pages(), 21U);
  }
}

TEST(RunningList, tokens_that_are_not_valid_any_more_are_made_up_for) {
  Listing listing(10);
  for (int i = 0; i < 45; ++i) listing.begin();
  RunningList list;
  read(list, listing);
  listing.forget_tokens();
  ASSERT_EQ(read(list, listing), RunningList::Read::done);
  EXPECT_EQ(listed(list), listing.running());
}

TEST(RunningList, is_right_whatever_begins_and_ends_between_two_looks) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto up_to = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count + 1)); };
    Listing listing(static_cast<std::size_t>(1 + up_to(7)));
    RunningList list;
    for (int look = 0; look < 40; ++look) {
      for (int begun = up_to(look == 0 ? 60 : 6); begun > 0; --begun) listing.begin();
      for (int ended = up_to(6); ended > 0 && !listing.running().empty(); --ended)
        listing.end(*std::next(listing.running().begin(), up_to(static_cast<int>(listing.running().size()) - 1)));
      if (up_to(20) == 0) listing.forget_tokens();
      ASSERT_EQ(read(list, listing), RunningList::Read::done);
      ASSERT_EQ(listed(list), listing.running());
      ASSERT_LE(list.pages(), 2 * listing.running().size() + 2);
    }
  }
}

TEST(RunningList, says_what_became_of_it_and_keeps_that_it_has_changed_until_somebody_asks) {
  Listing listing(10);
  for (int i = 0; i < 5; ++i) listing.begin();
  RunningList list;
  read(list, listing);
  list.has_changed();
  listing.end(3);
  ASSERT_EQ(read(list, listing), RunningList::Read::done);
  for (const auto& [kind, expected] :
       std::map<std::string, RunningList::Read>{{"ThrottlingException", RunningList::Read::failed},
                                                {"StateMachineDoesNotExist", RunningList::Read::refused}}) {
    listing.fail(kind);
    Response problem;
    EXPECT_EQ(list.read(listing.ask(), problem), expected);
    EXPECT_EQ(problem.status, 400);
  }
  listing.fail("");
  ASSERT_EQ(read(list, listing), RunningList::Read::done);
  EXPECT_TRUE(list.has_changed());
  EXPECT_EQ(listed(list), listing.running());
}

TEST(RunningList, that_never_ends_is_given_up) {
  RunningList list;
  Response problem;
  int asked = 0;
  auto ask = [&](const std::vector<std::string>& tokens) {
    asked += static_cast<int>(tokens.size());
    return std::vector<Response>(tokens.size(),
                                 {.status = 200, .problem = {}, .body = R"({"executions":[],"nextToken":"on"})"});
  };
  EXPECT_EQ(list.read(ask, problem), RunningList::Read::endless);
  EXPECT_LE(asked, 1000);
}

}  // namespace
}  // namespace pawl::providers::stepfunctions
