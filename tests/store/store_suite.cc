#include "store/store_suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace pawl::test {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FrameSuite);

void StoreSuite::commit(Frame frame) {
  frame.position = ++position_;
  store_->commit({&frame, 1});
}

void StoreSuite::commit_run(RunFold fold) {
  Frame frame;
  frame.runs.push_back(std::move(fold));
  commit(std::move(frame));
}

namespace {

std::vector<std::pair<Position, std::string>> frames_of(Store& store) {
  std::vector<std::pair<Position, std::string>> frames;
  store.for_each_frame([&](Position at, std::string_view parts) { frames.emplace_back(at, parts); });
  return frames;
}

std::vector<StepIndex> ready_of(Store& store) {
  std::vector<StepIndex> steps;
  store.for_each_ready([&](const ReadyStep& step) { steps.push_back(step.step); });
  return steps;
}

std::vector<std::int64_t> starts_of(Store& store, Instant since) {
  std::vector<std::int64_t> starts;
  store.for_each_start(since, [&](const StartRow& row) { starts.push_back(row.at.ms); });
  return starts;
}

Frame frame_with(std::string parts, Position folded_before = 0) {
  Frame frame;
  frame.parts = std::move(parts);
  frame.folded_before = folded_before;
  return frame;
}

TenantFold first_fold_of(TenantId tenant) { return tenant_fold(tenant_named(tenant, tenant.str(), 1), 1); }

using Positions = std::vector<Position>;

Positions positions_of(Store& store) {
  Positions positions;
  for (auto& [at, parts] : frames_of(store)) positions.push_back(at);
  return positions;
}

// Frames

TEST_P(StoreSuite, an_empty_store_holds_nothing) {
  EXPECT_EQ(describe(*store_), "last 0\n");
  EXPECT_FALSE(store_->load(acme, run_id(1)));
  EXPECT_TRUE(store_->list_runs(acme, {}).empty());
  auto stream = store_->history(StreamKey::of(acme));
  EXPECT_TRUE(stream.lines.empty());
  EXPECT_EQ(stream.last_seq, 0u);
}

TEST_P(FrameSuite, frames_come_back_in_order_with_their_bytes) {
  std::string large = parts_of({StreamKey::of(acme)});
  append_part(large, {StreamKey::of(acme, run_id(1)), 4, std::string(500'000, 'x')});
  std::string with_zeros;
  append_part(with_zeros, {StreamKey::of(zeta), 1, std::string_view("\0\n\0", 3)});

  commit(frame_with(large));
  std::vector<Frame> together{frame_with(with_zeros), frame_with("")};
  for (Frame& frame : together) frame.position = ++position_;
  store_->commit(together);

  for (int look = 0; look < 2; ++look, reopen()) {
    EXPECT_EQ(store_->last_position(), 3u);
    auto frames = frames_of(*store_);
    ASSERT_EQ(frames.size(), 3u);
    EXPECT_EQ(frames[0], (std::pair<Position, std::string>(1, large)));
    EXPECT_EQ(frames[1], (std::pair<Position, std::string>(2, with_zeros)));
    EXPECT_EQ(frames[2], (std::pair<Position, std::string>(3, "")));
  }
}

TEST_P(StoreSuite, a_commit_of_no_frames_changes_nothing) {
  store_->commit({});
  EXPECT_EQ(store_->last_position(), 0u);
}

TEST_P(FrameSuite, only_frames_that_are_not_folded_come_back) {
  for (int i = 0; i < 5; ++i) commit(frame_with(parts_of({StreamKey::of(acme)})));
  commit(frame_with("", 4));
  EXPECT_EQ(positions_of(*store_), (Positions{4, 5, 6}));
  reopen();
  EXPECT_EQ(positions_of(*store_), (Positions{4, 5, 6}));
  EXPECT_EQ(store_->last_position(), 6u);
}

TEST_P(FrameSuite, a_later_frame_cannot_unfold) {
  for (int i = 0; i < 3; ++i) commit(frame_with(""));
  commit(frame_with("", 3));
  commit(frame_with("", 0));
  EXPECT_EQ(positions_of(*store_), (Positions{3, 4, 5}));
  reopen();
  EXPECT_EQ(positions_of(*store_), (Positions{3, 4, 5}));
}

TEST_P(FrameSuite, positions_go_on_when_every_frame_is_folded) {
  for (int i = 0; i < 3; ++i) commit(frame_with("", 0));
  commit(frame_with(parts_of({StreamKey::of(acme)}), 5));
  EXPECT_EQ(positions_of(*store_), Positions{});
  store_->tidy();
  reopen();
  EXPECT_EQ(positions_of(*store_), Positions{});
  EXPECT_EQ(store_->last_position(), 4u);
  commit(frame_with(parts_of({StreamKey::of(acme)}), 5));
  EXPECT_EQ(positions_of(*store_), (Positions{5}));
}

TEST_P(FrameSuite, a_long_backlog_of_folded_frames_stays_hidden_while_it_is_dropped) {
  std::vector<Frame> backlog(300);
  for (Frame& frame : backlog) {
    frame.position = ++position_;
    frame.parts = parts_of({StreamKey::of(acme)});
  }
  store_->commit(backlog);
  commit(frame_with("", 300));
  EXPECT_EQ(positions_of(*store_), (Positions{300, 301}));
  for (int i = 0; i < 3; ++i) {
    store_->tidy();
    reopen();
    EXPECT_EQ(positions_of(*store_), (Positions{300, 301}));
  }
}

// Runs

TEST_P(StoreSuite, a_run_comes_back_as_it_was_folded) {
  RunFold fold = new_run(acme, 1);
  fold.row.status = RunStatus::running;
  fold.row.phase = RunPhase::error;
  fold.row.error_code = "TOOL_TIMEOUT";
  fold.row.due_at = run_time(9);
  fold.row.leased = true;
  fold.row.snapshot = std::string("\0\x01 bytes\xff", 9);
  commit_run(fold);
  for (int look = 0; look < 2; ++look, reopen()) {
    auto row = store_->load(acme, run_id(1));
    ASSERT_TRUE(row);
    EXPECT_EQ(describe(*row), describe(fold.row));
  }
}

TEST_P(StoreSuite, a_fold_replaces_the_row) {
  RunFold first = new_run(acme, 1);
  first.row.due_at = run_time(5);
  first.row.leased = true;
  first.row.phase = RunPhase::backing_off;
  commit_run(first);
  EXPECT_EQ(store_->list_runs(acme, {}).at(0).phase, RunPhase::backing_off);
  EXPECT_EQ(store_->list_runs(acme, {.status = first.row.status}).at(0).phase, RunPhase::backing_off);
  RunFold second = later(first, 4, RunStatus::denied);
  second.row.phase = RunPhase::plain;
  second.row.error_code = "DENIED";
  second.row.due_at = end_of_time;
  second.row.leased = false;
  commit_run(second);

  EXPECT_EQ(describe(*store_->load(acme, run_id(1))), describe(second.row));
  EXPECT_EQ(store_->list_runs(acme, {}).size(), 1u);
  EXPECT_TRUE(store_->leased_runs().empty());
  EXPECT_TRUE(store_->due_runs(end_of_time, 10, std::nullopt).empty());
}

TEST_P(StoreSuite, a_run_may_be_folded_twice_in_one_commit) {
  std::vector<Frame> frames(2);
  RunFold first = new_run(acme, 1);
  RunFold second = later(first, 2, RunStatus::success);
  frames[0].position = 1;
  frames[0].runs = {first};
  frames[1].position = 2;
  frames[1].runs = {second};
  store_->commit(frames);
  EXPECT_EQ(describe(*store_->load(acme, run_id(1))), describe(second.row));
  EXPECT_EQ(store_->history(first.history.key).lines, lines_of(first.history.key, 1, 5));
}

TEST_P(StoreSuite, request_keys_lead_to_their_runs_and_are_counted) {
  RunFold first = new_run(acme, 1), second = new_run(zeta, 2);
  first.request_keys = {"a", "b"};
  second.request_keys = {"a"};
  commit_run(first);
  commit_run(second);
  EXPECT_EQ(store_->find_request(acme, "b"), run_id(1));
  EXPECT_EQ(store_->find_request(zeta, "a"), run_id(2));
  EXPECT_EQ(store_->find_request(zeta, "b"), std::nullopt);
  EXPECT_EQ(store_->count_requests(), 3u);
}

TEST_P(StoreSuite, a_fold_without_events_changes_the_row_alone) {
  RunFold first = new_run(acme, 1);
  commit_run(first);
  RunFold heartbeat = later(first, 0, RunStatus::running);
  heartbeat.row.due_at = run_time(50);
  commit_run(heartbeat);
  EXPECT_EQ(describe(*store_->load(acme, run_id(1))), describe(heartbeat.row));
  EXPECT_EQ(store_->history(first.history.key).lines, first.history.lines);
}

// Histories

TEST_P(StoreSuite, histories_are_appended_across_folds_without_gaps) {
  RunFold fold = new_run(acme, 1, 2);
  StreamKey key = fold.history.key;
  commit_run(fold);
  for (int i = 0; i < 20; ++i) {
    fold = later(fold, static_cast<std::uint64_t>(1 + i % 3), RunStatus::running);
    commit_run(fold);
    if (i == 10) reopen();
  }
  auto stream = store_->history(key);
  EXPECT_EQ(stream.lines, lines_of(key, 1, fold.row.seq));
  EXPECT_EQ(stream.last_seq, fold.row.seq);
  EXPECT_EQ(stream.head, head_after(key, fold.row.seq));
}

TEST_P(StoreSuite, a_large_history_comes_back_whole) {
  RunFold fold = new_run(acme, 1, 20'000);
  commit_run(fold);
  EXPECT_EQ(store_->history(fold.history.key).lines, fold.history.lines);
}

TEST_P(StoreSuite, every_stream_is_visited_once_and_may_be_read_meanwhile) {
  std::vector<StreamKey> expected;
  Frame frame;
  for (TenantId tenant : {acme, zeta}) {
    frame.tenants.push_back(first_fold_of(tenant));
    expected.push_back(StreamKey::of(tenant));
  }
  for (std::uint64_t n = 0; n < 1203; ++n) {
    frame.runs.push_back(new_run(n % 2 ? acme : zeta, n, 1));
    expected.push_back(frame.runs.back().history.key);
  }
  commit(std::move(frame));

  std::vector<StreamKey> seen;
  store_->for_each_stream([&](StreamKey key) {
    EXPECT_TRUE(seen.size() % 20 != 0 || store_->history(key).last_seq == 1);
    seen.push_back(key);
  });
  std::ranges::sort(seen);
  std::ranges::sort(expected);
  EXPECT_EQ(seen, expected);
}

// Ready steps

TEST_P(StoreSuite, ready_steps_come_with_the_oldest_run_first_and_those_that_have_started_before) {
  RunFold late = new_run(acme, 9), early = new_run(acme, 1), queued = new_run(acme, 5), foreign = new_run(zeta, 3);
  queued.row.status = RunStatus::created;
  late.ready = {ready_step(late, 1), ready_step(late, 3)};
  early.ready = {ready_step(early, 7)};
  queued.ready = {ready_step(queued, 5)};
  foreign.ready = {ready_step(foreign, 2)};
  Frame frame;
  frame.tenants = {first_fold_of(acme), first_fold_of(zeta)};
  frame.runs = {late, queued, foreign, early};
  commit(frame);
  reopen();
  std::vector<ReadyStep> steps;
  store_->for_each_ready([&](const ReadyStep& step) {
    if (step.tenant == acme) steps.push_back(step);
  });
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].step, 7);
  EXPECT_EQ(steps[1].step, 1);
  EXPECT_FALSE(steps[1].fresh);
  EXPECT_EQ(steps[2].run, run_id(9));
  EXPECT_EQ(steps[2].step, 3);
  EXPECT_EQ(steps[2].tool.text, "tool-3");
  EXPECT_EQ(steps[2].workspace.text, "default");
  EXPECT_EQ(steps[2].workflow.text, "triage");
  EXPECT_EQ(steps[3].run, run_id(5));
  EXPECT_TRUE(steps[3].fresh);
  EXPECT_EQ(ready_of(*store_).size(), 5u);
}

TEST_P(StoreSuite, ready_steps_are_replaced) {
  RunFold fold = new_run(acme, 1), other = new_run(acme, 2);
  fold.ready = {ready_step(fold, 1), ready_step(fold, 2)};
  other.ready = {ready_step(other, 9)};
  Frame frame;
  frame.tenants = {first_fold_of(acme)};
  frame.runs = {fold, other};
  commit(frame);

  RunFold next = later(fold, 1, RunStatus::running);
  next.ready = {ready_step(fold, 2), ready_step(fold, 4)};
  commit_run(next);
  EXPECT_EQ(ready_of(*store_), (std::vector<StepIndex>{2, 4, 9}));

  commit_run(later(next, 1, RunStatus::waiting));
  EXPECT_EQ(ready_of(*store_), (std::vector<StepIndex>{9}));
}

TEST_P(StoreSuite, many_ready_steps_are_all_visited) {
  Frame frame;
  std::vector<StepIndex> expected;
  for (std::uint64_t n = 0; n < 1700; ++n) {
    RunFold fold = new_run(acme, n, 1);
    fold.ready = {ready_step(fold, static_cast<StepIndex>(n))};
    expected.push_back(static_cast<StepIndex>(n));
    frame.runs.push_back(std::move(fold));
  }
  frame.tenants = {first_fold_of(acme)};
  commit(std::move(frame));
  EXPECT_EQ(ready_of(*store_), expected);
}

// Due and leased runs

TEST_P(StoreSuite, due_runs_come_earliest_first_up_to_a_moment) {
  Frame frame;
  for (std::uint64_t n : {5, 2, 8, 3}) {
    RunFold fold = new_run(n % 2 ? acme : zeta, n);
    fold.row.due_at = run_time(100 + n);
    frame.runs.push_back(fold);
  }
  frame.runs.push_back(new_run(acme, 99));
  commit(frame);
  auto due = store_->due_runs(run_time(105), 10, std::nullopt);
  EXPECT_EQ(ids_of(due), (std::vector{run_id(2), run_id(3), run_id(5)}));
  EXPECT_EQ(due[1].tenant, acme);
  EXPECT_EQ(due[1].due_at, run_time(103));
  EXPECT_TRUE(store_->due_runs(run_time(101), 10, std::nullopt).empty());
}

TEST_P(StoreSuite, due_runs_are_paged_without_loss_even_when_many_are_due_at_once) {
  Frame frame;
  std::vector<RunId> expected;
  for (std::uint64_t n = 0; n < 25; ++n) {
    RunFold fold = new_run(n < 12 ? acme : zeta, n);
    fold.row.due_at = run_time(n < 3 ? 50 : 60);
    expected.push_back(fold.row.id);
    frame.runs.push_back(fold);
  }
  commit(frame);
  std::vector<RunId> seen;
  std::optional<DueRun> after;
  while (true) {
    auto page = store_->due_runs(run_time(60), 4, after);
    if (page.empty()) break;
    EXPECT_LE(page.size(), 4u);
    for (const DueRun& run : page) seen.push_back(run.run);
    after = page.back();
  }
  EXPECT_EQ(seen, expected);
}

TEST_P(StoreSuite, leased_runs_are_those_with_a_lease) {
  RunFold leased = new_run(acme, 1), free = new_run(acme, 2), elsewhere = new_run(zeta, 3);
  leased.row.leased = elsewhere.row.leased = true;
  leased.row.due_at = run_time(7);
  Frame frame;
  frame.runs = {leased, free, elsewhere};
  commit(frame);
  auto runs = store_->leased_runs();
  EXPECT_EQ(ids_of(runs), (std::vector{run_id(1), run_id(3)}));
  EXPECT_EQ(runs[0].due_at, run_time(7));
  EXPECT_EQ(runs[1].due_at, end_of_time);
}

// Lists

// Runs 0 to 19: status, workflow and workspace vary.
Frame varied_runs() {
  Frame frame;
  for (std::uint64_t n = 0; n < 20; ++n) {
    RunFold fold = new_run(acme, n);
    fold.row.status = static_cast<RunStatus>(n % enum_count<RunStatus>);
    fold.row.workflow.text = n % 2 ? "odd" : "even";
    fold.row.workspace.text = n < 10 ? "first" : "second";
    frame.runs.push_back(fold);
  }
  return frame;
}

std::vector<RunId> list(Store& store, const RunFilter& filter) { return ids_of(store.list_runs(acme, filter)); }

TEST_P(StoreSuite, of_pawls_own_workflows_those_that_undo_are_listed) {
  Frame frame;
  const std::string names[] = {"pawl.task", "pawl.undo.0f", "pawl.webhook.1", "triage"};
  for (std::uint64_t n = 0; n < std::size(names); ++n) {
    frame.runs.push_back(new_run(acme, n));
    frame.runs.back().row.workflow.text = names[n];
    frame.runs.back().row.status = RunStatus::waiting;
  }
  commit(frame);
  EXPECT_EQ(list(*store_, {}), (std::vector{run_id(3), run_id(1)}));
  EXPECT_EQ(list(*store_, {.status = RunStatus::waiting}), (std::vector{run_id(3), run_id(1)}));
  EXPECT_EQ(list(*store_, {.workflow = WorkflowName{"pawl.task"}}), std::vector{run_id(0)});
}

RunFilter since(Instant moment) {
  RunFilter filter;
  filter.since = moment;
  return filter;
}

TEST_P(StoreSuite, runs_are_listed_newest_first_without_snapshots) {
  commit(varied_runs());
  RunFilter filter;
  filter.limit = 3;
  auto rows = store_->list_runs(acme, filter);
  EXPECT_EQ(ids_of(rows), (std::vector{run_id(19), run_id(18), run_id(17)}));
  RunRow expected = *store_->load(acme, run_id(19));
  expected.snapshot.clear();
  EXPECT_EQ(describe(rows[0]), describe(expected));
}

TEST_P(StoreSuite, a_cursor_goes_on_where_the_last_page_ended) {
  commit(varied_runs());
  for (std::optional<RunStatus> status :
       {std::optional<RunStatus>(), std::optional(RunStatus::success), std::optional(RunStatus::failed)}) {
    RunFilter all;
    all.status = status;
    RunFilter page = all;
    page.limit = 1;
    std::vector<RunId> seen;
    while (true) {
      auto ids = list(*store_, page);
      if (ids.empty()) break;
      ASSERT_EQ(ids.size(), 1u);
      seen.push_back(ids[0]);
      page.before = ids[0];
    }
    EXPECT_EQ(seen, list(*store_, all));
    EXPECT_EQ(seen.size(), status ? (*status == RunStatus::success ? 3u : 2u) : 20u);
  }
}

TEST_P(StoreSuite, every_status_can_be_asked_for) {
  commit(varied_runs());
  for (std::size_t status = 0; status < enum_count<RunStatus>; ++status) {
    RunFilter filter;
    filter.status = static_cast<RunStatus>(status);
    auto ids = list(*store_, filter);
    std::vector<RunId> expected;
    for (std::uint64_t n = 20; n-- > 0;)
      if (n % enum_count<RunStatus> == status) expected.push_back(run_id(n));
    EXPECT_EQ(ids, expected) << to_string(*filter.status);
  }
}

TEST_P(StoreSuite, filters_narrow_together) {
  commit(varied_runs());
  RunFilter filter;
  filter.workflow = {"odd"};
  filter.workspace = {"second"};
  EXPECT_EQ(list(*store_, filter), (std::vector{run_id(19), run_id(17), run_id(15), run_id(13), run_id(11)}));
  filter.since = run_time(15);
  EXPECT_EQ(list(*store_, filter), (std::vector{run_id(19), run_id(17), run_id(15)}));
  filter.before = run_id(17);
  EXPECT_EQ(list(*store_, filter), (std::vector{run_id(15)}));
  filter.status = RunStatus::canceled;
  EXPECT_EQ(list(*store_, filter), (std::vector{run_id(15)}));
  filter.status = RunStatus::success;
  EXPECT_TRUE(list(*store_, filter).empty());
  RunFilter unknown;
  unknown.workflow = {"none"};
  EXPECT_TRUE(list(*store_, unknown).empty());
}

TEST_P(StoreSuite, since_is_the_moment_of_creation) {
  commit(varied_runs());
  EXPECT_EQ(list(*store_, since(run_time(18))), (std::vector{run_id(19), run_id(18)}));
  EXPECT_EQ(list(*store_, since(Instant{0})).size(), 20u);
  EXPECT_TRUE(list(*store_, since(run_time(20))).empty());
}

// Approvals

TEST_P(StoreSuite, approvals_are_listed_by_status_newest_first) {
  RunFold fold = new_run(acme, 1), other = new_run(acme, 2);
  fold.approvals = {approval(fold, 1), approval(fold, 2)};
  other.approvals = {approval(other, 1)};
  Frame frame;
  frame.runs = {fold, other};
  commit(frame);
  auto rows = store_->list_approvals(acme, {.status = ApprovalStatus::requested, .limit = 10});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].run, run_id(2));
  EXPECT_EQ(rows[1].id, fold.approvals[1].id);
  EXPECT_EQ(rows[1].step.text, "gate-2");
  EXPECT_EQ(rows[1].tier, Tier::high);
  EXPECT_EQ(rows[1].requested_at, fold.approvals[1].requested_at);
  EXPECT_EQ(rows[1].expires_at, fold.approvals[1].expires_at);
  EXPECT_EQ(rows[2].id, fold.approvals[0].id);
  EXPECT_EQ(store_->list_approvals(acme, {.status = ApprovalStatus::requested, .limit = 2}).size(), 2u);

  RunFold next = later(fold, 1, RunStatus::running);
  next.approvals = {approval(fold, 1, ApprovalStatus::approved)};
  commit_run(next);
  reopen();
  EXPECT_EQ(store_->list_approvals(acme, {.status = ApprovalStatus::requested, .limit = 10}).size(), 2u);
  auto approved = store_->list_approvals(acme, {.status = ApprovalStatus::approved, .limit = 10});
  ASSERT_EQ(approved.size(), 1u);
  EXPECT_EQ(approved[0].id, fold.approvals[0].id);
}

TEST_P(StoreSuite, a_list_of_approvals_goes_on_behind_any_of_them_whatever_became_of_it) {
  RunFold fold = new_run(acme, 1);
  for (std::uint64_t n = 1; n <= 5; ++n) fold.approvals.push_back(approval(fold, n));
  // Asked for in the same moment: ids tell them apart.
  fold.approvals[2].requested_at = fold.approvals[3].requested_at = fold.approvals[1].requested_at;
  commit_run(fold);
  auto page = [&](std::optional<ApprovalId> before, std::size_t limit) {
    std::vector<ApprovalId> ids;
    for (const ApprovalRow& row : store_->list_approvals(acme, {.before = before, .limit = limit}))
      ids.push_back(row.id);
    return ids;
  };
  auto all = page(std::nullopt, 10);
  ASSERT_EQ(all.size(), 5u);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(page(all[i], 10), std::vector(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end()));
  RunFold next = later(fold, 1, RunStatus::running);
  next.approvals = {fold.approvals[2]};
  next.approvals[0].status = ApprovalStatus::approved;
  commit_run(next);
  auto answered = std::ranges::find(all, fold.approvals[2].id);
  EXPECT_EQ(page(*answered, 10), std::vector(answered + 1, all.end()));
  EXPECT_TRUE(page(ApprovalId{}, 10).empty());
  EXPECT_TRUE(store_->list_approvals(zeta, {.before = all[0], .limit = 10}).empty());
}

// Receipts

ReceiptRow receipt(const RunFold& fold, std::uint64_t ordinal, ReceiptStatus status, const std::string& key) {
  return {fold.row.tenant, ReceiptId{derive_id(fold.row.id.bits, ordinal)}, fold.row.id, status, key};
}

TEST_P(StoreSuite, receipts_come_back_with_their_keys_and_by_their_status) {
  RunFold fold = new_run(acme, 1), other = new_run(zeta, 2);
  const std::string own = fold.row.id.str() + ":pay";
  fold.receipts = {receipt(fold, 1, ReceiptStatus::intended, own), receipt(fold, 2, ReceiptStatus::in_doubt, "sn:1"),
                   receipt(fold, 3, ReceiptStatus::failed, fold.row.id.str())};
  other.receipts = {receipt(other, 1, ReceiptStatus::succeeded, "sn:1")};
  commit_run(fold);
  commit_run(other);
  for (const ReceiptRow& row : fold.receipts) EXPECT_EQ(store_->find_receipt(acme, row.id), row) << row.key;
  EXPECT_EQ(store_->find_receipt(zeta, fold.receipts[0].id), std::nullopt);
  auto all = store_->list_receipts(acme, {.limit = 10});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(std::ranges::is_sorted(all, std::greater{}, &ReceiptRow::id)) << "newest first";
  EXPECT_EQ(store_->list_receipts(acme, {.before = all[0].id, .limit = 1}), std::vector{all[1]});
  EXPECT_EQ(store_->list_receipts(acme, {.status = ReceiptStatus::in_doubt, .limit = 10}),
            std::vector{fold.receipts[1]});
  EXPECT_EQ(store_->list_receipts(acme, {.status = ReceiptStatus::intended, .limit = 10}),
            std::vector{fold.receipts[0]});

  RunFold next = later(fold, 1, RunStatus::success);
  next.receipts = {receipt(fold, 1, ReceiptStatus::succeeded, own)};
  commit_run(next);
  reopen();
  EXPECT_EQ(store_->find_receipt(acme, fold.receipts[0].id), next.receipts[0]);
}

TEST_P(StoreSuite, an_effect_is_found_by_a_key_that_any_run_could_use) {
  RunFold fold = new_run(acme, 1), again = new_run(acme, 2);
  fold.receipts = {receipt(fold, 1, ReceiptStatus::failed, "sn:1"), receipt(fold, 2, ReceiptStatus::intended, "sn:1"),
                   receipt(fold, 3, ReceiptStatus::succeeded, "sn:2")};
  commit_run(fold);
  EXPECT_EQ(store_->find_effects(acme, "sn:1"), std::vector{fold.receipts[1]}) << "what failed does not hold it";
  EXPECT_TRUE(store_->find_effects(zeta, "sn:1").empty());
  EXPECT_TRUE(store_->find_effects(acme, "sn:3").empty());
  RunFold next = later(fold, 1, RunStatus::running);
  next.receipts = {receipt(fold, 2, ReceiptStatus::failed, "sn:1")};
  commit_run(next);
  EXPECT_TRUE(store_->find_effects(acme, "sn:1").empty());
  again.receipts = {receipt(again, 1, ReceiptStatus::in_doubt, "sn:1")};
  commit_run(again);
  EXPECT_EQ(store_->find_effects(acme, "sn:1"), again.receipts);
}

// Tenants, workflows, starts

TEST_P(StoreSuite, tenants_come_back_as_they_were) {
  Tenant full = tenant_named(acme, "acme", 4), bare;
  full.signing_keys["ed25519:a"] = {"public", Instant{5}, Instant{6}};
  full.signing_key = "ed25519:a";
  full.checkpoint = {3, 7, Hash{{1, 2}}, {Hash{{3}}, Hash{{4}}, Hash{{5}}}};
  bare.id = zeta;
  bare.name = "zeta";
  bare.seq = 1;
  Frame frame;
  frame.tenants = {tenant_fold(full, 1), tenant_fold(bare, 1)};
  commit(frame);
  reopen();
  EXPECT_EQ(store_->tenants(), (std::vector{full, bare}));

  full.weight = 1;
  full.workspaces.clear();
  full.seq = 6;
  Frame next;
  next.tenants = {tenant_fold(full, 5)};
  commit(next);
  EXPECT_EQ(store_->tenants(), (std::vector{full, bare}));
  auto stream = store_->history(StreamKey::of(acme));
  EXPECT_EQ(stream.lines, lines_of(StreamKey::of(acme), 1, 6));
  EXPECT_EQ(stream.last_seq, 6u);
  EXPECT_EQ(stream.head, head_after(StreamKey::of(acme), 6));

  std::string back;
  store_->for_each_piece_back(StreamKey::of(acme), [&](std::uint64_t, std::string_view lines) {
    back = std::string(lines) + back;
    return true;
  });
  EXPECT_EQ(back, stream.lines);
  std::vector<std::uint64_t> firsts;
  store_->for_each_piece_back(StreamKey::of(acme), [&](std::uint64_t first_seq, std::string_view) {
    firsts.push_back(first_seq);
    return false;
  });
  EXPECT_EQ(firsts, std::vector<std::uint64_t>{5});
}

TEST_P(StoreSuite, the_bundle_that_was_stored_last_of_a_run_is_found) {
  auto stored_line = [](Instant at, const BundleStored& stored) {
    std::string out;
    append_event(out, TenantEvent{at, Actor{"engine"}, stored});
    return out + "\n";
  };
  auto store_in = [&](TenantId tenant, std::uint64_t seq, std::vector<BundleStored> bundles) {
    TenantFold fold =
        tenant_fold(tenant_named(tenant, tenant == acme ? "acme" : "zeta", seq), seq - bundles.size() + 1);
    fold.history.lines.clear();
    for (const BundleStored& each : bundles) fold.history.lines += stored_line(run_time(seq), each);
    return fold;
  };
  const BundleStored old{run_id(1), 4, Hash{{1}}, 10, "/old.zip"},
      renewed{run_id(1), 6, Hash{{2}}, 11, "s3://b/new \"é"}, other{run_id(2), 3, Hash{{3}}, 12, "/other.zip"};
  Frame frame;
  frame.tenants = {store_in(acme, 2, {old, other}), store_in(zeta, 1, {old})};
  commit(frame);
  Frame next;
  next.tenants = {store_in(acme, 3, {renewed})};
  commit(next);
  reopen();
  auto expect_found = [&](TenantId tenant, const BundleStored& expected, Instant at) {
    const auto found = store_->find_bundle(tenant, expected.run);
    ASSERT_TRUE(found);
    EXPECT_EQ(std::tie(found->stored.run, found->stored.seq, found->stored.sha256, found->stored.bytes,
                       found->stored.where, found->at),
              std::tie(expected.run, expected.seq, expected.sha256, expected.bytes, expected.where, at));
  };
  expect_found(acme, renewed, run_time(3));
  expect_found(acme, other, run_time(2));
  expect_found(zeta, old, run_time(1));
  EXPECT_FALSE(store_->find_bundle(zeta, run_id(2)));
  std::vector<std::string> places;
  store_->for_each_bundle(acme, [&](const BundleRow& row) { places.push_back(row.stored.where); });
  std::ranges::sort(places);
  EXPECT_EQ(places, (std::vector<std::string>{"/other.zip", "s3://b/new \"é"}));
}

TEST_P(StoreSuite, every_version_of_a_workflow_is_kept) {
  Frame frame;
  frame.workflows = {{acme, {"triage"}, 1, "d1", "source: 1"},
                     {acme, {"triage"}, 2, "d2", "source: 2"},
                     {zeta, {"triage"}, 1, "d3", "source: 3"}};
  commit(frame);
  reopen();
  std::vector<std::string> seen;
  store_->for_each_workflow([&](const WorkflowRow& row) {
    seen.push_back(fmt::format("{} {} {} {} {}", row.tenant == acme ? "acme" : "zeta", row.name.text, row.version,
                               row.digest, row.source));
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"acme triage 1 d1 source: 1", "acme triage 2 d2 source: 2",
                                            "zeta triage 1 d3 source: 3"}));
}

TEST_P(StoreSuite, many_workflows_are_all_visited) {
  Frame frame;
  for (int n = 0; n < 1100; ++n) frame.workflows.push_back({acme, {fmt::format("w{}", n % 100)}, n, "d", "s"});
  commit(frame);
  int seen = 0;
  store_->for_each_workflow([&](const WorkflowRow&) { ++seen; });
  EXPECT_EQ(seen, 1100);
}

TEST_P(StoreSuite, starts_are_kept_for_a_minute_behind_the_newest) {
  Frame frame;
  frame.starts = {{acme, {"triage"}, {100'000}}, {acme, {"triage"}, {100'000}}, {zeta, {"other"}, {130'000}}};
  commit(frame);
  EXPECT_EQ(starts_of(*store_, {0}), (std::vector<std::int64_t>{100'000, 100'000, 130'000}));
  EXPECT_EQ(starts_of(*store_, {100'001}), (std::vector<std::int64_t>{130'000}));
  EXPECT_EQ(starts_of(*store_, {130'000}), (std::vector<std::int64_t>{130'000}));

  reopen();
  Frame next;
  next.starts = {{acme, {"triage"}, {160'001}}};
  commit(next);
  store_->tidy();
  EXPECT_EQ(starts_of(*store_, {0}), (std::vector<std::int64_t>{130'000, 160'001}));
  store_->for_each_start({160'000}, [&](const StartRow& row) {
    EXPECT_EQ(row.tenant, acme);
    EXPECT_EQ(row.workflow.text, "triage");
  });
}

// Tenants are strangers to each other

// Followers

TEST_P(StoreSuite, a_follower_goes_on_where_it_was_also_after_the_store_was_closed) {
  constexpr Duration hold = std::chrono::seconds(10);
  auto first = store_->follow("webhooks", hold);
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, 0u);
  commit_run(new_run(acme, 1));
  commit_run(new_run(acme, 2));
  Position last = store_->last_position();
  store_->followed("webhooks", last);
  EXPECT_EQ(store_->follow("webhooks", hold), last);
  store_->followed("webhooks", 1);  // by one that is behind
  EXPECT_EQ(store_->follow("webhooks", hold), last);
  store_->tidy();
  store_->unfollow("webhooks");
  reopen();
  EXPECT_EQ(store_->follow("webhooks", hold), last);
  EXPECT_EQ(store_->last_position(), last) << "that somebody has followed is no event";
}

TEST_P(StoreSuite, a_tenant_sees_nothing_of_another) {
  RunFold fold = new_run(acme, 1);
  fold.row.status = RunStatus::waiting;
  fold.approvals = {approval(fold, 1)};
  commit_run(fold);
  EXPECT_FALSE(store_->load(zeta, run_id(1)));
  EXPECT_TRUE(store_->list_runs(zeta, {}).empty());
  RunFilter waiting;
  waiting.status = RunStatus::waiting;
  EXPECT_TRUE(store_->list_runs(zeta, waiting).empty());
  EXPECT_TRUE(store_->list_approvals(zeta, {.status = ApprovalStatus::requested, .limit = 10}).empty());
  EXPECT_TRUE(store_->history(StreamKey::of(zeta, run_id(1))).lines.empty());
}

TEST_P(StoreSuite, two_tenants_may_have_runs_of_the_same_id) {
  RunFold mine = new_run(acme, 1), theirs = new_run(zeta, 1, 5);
  commit_run(mine);
  commit_run(theirs);
  EXPECT_EQ(describe(*store_->load(acme, run_id(1))), describe(mine.row));
  EXPECT_EQ(describe(*store_->load(zeta, run_id(1))), describe(theirs.row));
  EXPECT_EQ(store_->history(theirs.history.key).last_seq, 5u);
}

// All together

TEST_P(StoreSuite, tidying_and_reopening_change_nothing_that_can_be_seen) {
  RunFold fold = new_run(acme, 1);
  fold.ready = {ready_step(fold, 0)};
  fold.approvals = {approval(fold, 1)};
  fold.row.due_at = run_time(3);
  Frame frame = frame_with(parts_of({fold.history.key}));
  frame.runs = {fold};
  frame.tenants = {tenant_fold(tenant_named(acme, "acme", 2), 1)};
  frame.workflows = {{acme, {"triage"}, 1, "d1", "source"}};
  frame.starts = {{acme, {"triage"}, run_time(1)}};
  commit(frame);
  Frame next = frame_with(parts_of({fold.history.key}), 2);
  next.runs = {later(fold, 1, RunStatus::running)};
  next.runs[0].ready = fold.ready;
  commit(next);
  std::string before = describe(*store_);
  store_->tidy();
  EXPECT_EQ(describe(*store_), before);
  reopen();
  EXPECT_EQ(describe(*store_), before);
  store_->tidy();
  reopen();
  EXPECT_EQ(describe(*store_), before);
}

TEST_P(StoreSuite, a_read_sees_every_commit_that_returned_while_other_threads_read) {
  std::atomic<std::uint64_t> committed = 0;
  std::atomic<bool> failed = false;
  constexpr std::uint64_t commits = 300;
  std::vector<std::thread> readers;
  for (int n = 0; n < 2; ++n)
    readers.emplace_back([&] {
      while (committed < commits && !failed) {
        std::uint64_t known = committed;
        if (known > 0 && !store_->load(acme, run_id(known))) failed = true;
        if (store_->last_position() < known) failed = true;
      }
    });
  for (std::uint64_t n = 1; n <= commits; ++n) {
    commit_run(new_run(acme, n, 1));
    if (n % 50 == 0) store_->tidy();
    committed = n;
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_FALSE(failed);
}

}  // namespace
}  // namespace pawl::test
