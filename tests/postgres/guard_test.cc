// What a commit leaves out because somebody else was faster, and that it leaves out all of it and nothing more.
#include "crypto/sha256.h"
#include "postgres/postgres_case.h"

namespace pawl::test {
namespace {

class PostgresGuard : public PostgresCase {
 protected:
  std::unique_ptr<PostgresStore> one_ = database_.open();
  std::unique_ptr<PostgresStore> other_ = database_.open();
};

// The same events count, but another history: what another server decided at the same moment.
RunFold otherwise(RunFold fold) {
  fold.history.lines = std::string(fold.history.lines.size() - 1, '#') + "\n";
  fold.history.head = fold.row.head = sha256(fold.history.lines);
  fold.row.snapshot = "otherwise";
  return fold;
}

// Everything that a fold can bring along.
RunFold with_everything(RunFold fold) {
  fold.ready = {ready_step(fold, 1)};
  fold.approvals = {approval(fold, 1)};
  fold.incarnation = 7;
  return fold;
}

TEST_F(PostgresGuard, servers_have_numbers_of_their_own) { EXPECT_NE(one_->server_number(), other_->server_number()); }

TEST_F(PostgresGuard, a_fold_that_follows_an_older_event_is_lost_and_the_rest_of_the_commit_stands) {
  RunFold run = new_run(acme, 1), beside = new_run(acme, 2), brand_new = new_run(acme, 3);
  EXPECT_TRUE(commit(*one_, frame_of({run, beside})).empty());
  RunFold first = later(run, 2, RunStatus::running);
  EXPECT_TRUE(commit(*one_, first).empty());

  Frame frame =
      frame_of({with_everything(later(run, 1, RunStatus::running)), later(beside, 1, RunStatus::waiting), brand_new});
  frame.starts = {{acme, {"triage"}, run_time(1), run_id(1)}, {acme, {"triage"}, run_time(2), run_id(2)}};
  auto lost = commit(*other_, frame);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].key, run.history.key);
  EXPECT_EQ(lost[0].incarnation, 7u);
  EXPECT_FALSE(lost[0].capped);

  EXPECT_EQ(describe(*one_->load(acme, run_id(1))), describe(first.row));
  EXPECT_EQ(one_->history(run.history.key).lines, lines_of(run.history.key, 1, 5));
  EXPECT_EQ(one_->load(acme, run_id(2))->status, RunStatus::waiting);
  EXPECT_TRUE(one_->load(acme, run_id(3)));
  Sql sql(database_);
  EXPECT_EQ(sql.number("SELECT count(*) FROM pawl.ready"), 0);
  EXPECT_EQ(sql.number("SELECT count(*) FROM pawl.approvals"), 0);
  EXPECT_EQ(sql.number("SELECT count(*) FROM pawl.starts"), 1);
}

TEST_F(PostgresGuard, the_same_number_of_events_is_not_enough) {
  RunFold run = new_run(acme, 1);
  commit(*one_, run);
  RunFold mine = later(run, 1, RunStatus::running);
  EXPECT_TRUE(commit(*one_, mine).empty());
  RunFold theirs = otherwise(mine);
  EXPECT_EQ(commit(*other_, theirs).size(), 1u);
  // Decided on top of what was never written.
  RunFold on_top = later(theirs, 1, RunStatus::success);
  EXPECT_EQ(commit(*other_, on_top).size(), 1u);
  EXPECT_EQ(describe(*one_->load(acme, run_id(1))), describe(mine.row));
}

TEST_F(PostgresGuard, a_row_that_changed_without_an_event_is_not_overwritten) {
  RunFold run = new_run(acme, 1);
  run.row.revision = 100;
  commit(*one_, run);
  RunFold heartbeat = later(run, 0, RunStatus::running);
  heartbeat.follows_revision = 100;
  heartbeat.row.revision = 101;
  heartbeat.row.due_at = run_time(90);
  EXPECT_TRUE(commit(*one_, heartbeat).empty());

  RunFold completion = later(run, 1, RunStatus::running);
  completion.follows_revision = 100;
  completion.row.revision = 200;
  EXPECT_EQ(commit(*other_, completion).size(), 1u);
  auto loaded = other_->load(acme, run_id(1));
  EXPECT_EQ(loaded->revision, 101u);
  EXPECT_EQ(loaded->due_at, run_time(90));
  completion.follows_revision = 101;
  EXPECT_TRUE(commit(*other_, completion).empty());
}

TEST_F(PostgresGuard, folds_of_one_run_in_one_commit_are_judged_by_the_first) {
  RunFold run = new_run(acme, 1);
  RunFold next = later(run, 1, RunStatus::running), last = later(next, 2, RunStatus::running);
  EXPECT_TRUE(commit(*one_, run).empty());
  std::vector<Frame> frames{frame_of({next}), frame_of({last})};
  EXPECT_TRUE(one_->commit(frames).empty());
  EXPECT_EQ(one_->history(run.history.key).lines, lines_of(run.history.key, 1, 6));
  EXPECT_EQ(other_->commit(frames).size(), 1u);
  EXPECT_EQ(one_->history(run.history.key).lines, lines_of(run.history.key, 1, 6));
}

TEST_F(PostgresGuard, what_was_decided_before_a_run_was_loaded_anew_is_lost_and_what_came_after_is_written) {
  RunFold run = new_run(acme, 1);
  commit(*one_, run);
  RunFold taken = later(run, 1, RunStatus::running);
  commit(*one_, taken);
  RunFold stale = later(otherwise(taken), 1, RunStatus::running), anew = later(taken, 1, RunStatus::success);
  stale.incarnation = 1;
  anew.incarnation = 2;
  std::vector<Frame> frames{frame_of({stale}), frame_of({anew})};
  auto lost = other_->commit(frames);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].incarnation, 1u);
  EXPECT_EQ(describe(*one_->load(acme, run_id(1))), describe(anew.row));
}

TEST_F(PostgresGuard, a_run_is_made_once) {
  RunFold run = new_run(acme, 1);
  run.request_keys = {"key a"};
  EXPECT_TRUE(commit(*one_, run).empty());
  EXPECT_EQ(ids_of(commit(*other_, with_everything(otherwise(run)))), std::vector{run_id(1)});
  EXPECT_EQ(describe(*one_->load(acme, run_id(1))), describe(run.row));
  // Its key is still its own.
  EXPECT_EQ(other_->find_request(acme, "key a"), run_id(1));
}

TEST_F(PostgresGuard, a_taken_key_loses_the_run_and_gives_back_its_other_keys) {
  RunFold first = new_run(acme, 1), second = new_run(acme, 2), third = new_run(acme, 3), foreign = new_run(zeta, 4);
  first.request_keys = {"a"};
  second.request_keys = {"0", "a", "z"};
  third.request_keys = {"z"};
  foreign.request_keys = {"a"};
  EXPECT_TRUE(commit(*one_, first).empty());
  EXPECT_EQ(ids_of(commit(*other_, frame_of({second, foreign}))), std::vector{run_id(2)});
  EXPECT_FALSE(one_->load(acme, run_id(2)));
  EXPECT_EQ(one_->find_request(acme, "a"), run_id(1));
  EXPECT_EQ(one_->find_request(zeta, "a"), run_id(4));
  EXPECT_FALSE(one_->find_request(acme, "0"));
  EXPECT_TRUE(commit(*one_, third).empty());
  EXPECT_EQ(one_->find_request(acme, "z"), run_id(3));
}

TEST_F(PostgresGuard, of_two_runs_with_one_key_in_one_commit_one_is_made) {
  RunFold first = new_run(acme, 1), second = new_run(acme, 2);
  first.request_keys = second.request_keys = {std::string("key \0\xff", 6)};
  EXPECT_EQ(ids_of(commit(*one_, frame_of({second, first}))), std::vector{run_id(2)});
  EXPECT_EQ(one_->find_request(acme, first.request_keys[0]), run_id(1));
}

TEST_F(PostgresGuard, a_run_that_wants_the_latest_version_is_lost_when_there_is_a_later_one) {
  Frame published;
  published.workflows = {
      {acme, {"triage"}, 2, "d", "s"}, {acme, {"triage"}, 3, "d", "s"}, {zeta, {"triage"}, 9, "d", "s"}};
  commit(*one_, published);
  RunFold old = new_run(acme, 1), pinned = new_run(acme, 2), latest = new_run(acme, 3);
  old.wants_latest = latest.wants_latest = true;
  old.request_keys = {"k"};
  latest.row.version = 3;
  EXPECT_EQ(ids_of(commit(*other_, frame_of({old, pinned, latest}))), std::vector{run_id(1)});
  EXPECT_FALSE(one_->find_request(acme, "k"));
}

TEST_F(PostgresGuard, a_tenant_is_guarded_like_a_run_and_so_is_what_it_publishes) {
  Tenant tenant = tenant_named(acme, "acme", 1);
  Frame frame;
  frame.tenants = {tenant_fold(tenant, 1)};
  EXPECT_TRUE(commit(*one_, frame).empty());
  tenant.seq = 2;
  frame.tenants = {tenant_fold(tenant, 2)};
  frame.workflows = {{acme, {"mine"}, 1, "d", "s"}};
  EXPECT_TRUE(commit(*one_, frame).empty());

  frame.workflows = {{acme, {"theirs"}, 1, "d", "s"}, {zeta, {"unconcerned"}, 1, "d", "s"}};
  auto lost = commit(*other_, frame);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].key, StreamKey::of(acme));
  EXPECT_TRUE(other_->find_workflow(acme, {"mine"}, 1));
  EXPECT_FALSE(other_->find_workflow(acme, {"theirs"}, 1));
  EXPECT_TRUE(other_->find_workflow(zeta, {"unconcerned"}, 1));
  EXPECT_EQ(other_->tenant_heads(), (std::vector{std::pair(acme, std::uint64_t{2})}));
  auto loaded = other_->load_tenant(acme);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->first, tenant);
  EXPECT_EQ(loaded->second, head_after(StreamKey::of(acme), 2));
  EXPECT_EQ(other_->workflows_of(acme).size(), 1u);
}

TEST_F(PostgresGuard, a_name_belongs_to_one_tenant) {
  Frame frame, same_name;
  frame.tenants = {tenant_fold(tenant_named(acme, "default", 1), 1)};
  same_name.tenants = {tenant_fold(tenant_named(zeta, "default", 1), 1)};
  EXPECT_TRUE(commit(*one_, frame).empty());
  auto lost = commit(*other_, same_name);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].key, StreamKey::of(zeta));
  EXPECT_EQ(one_->tenants().size(), 1u);
}

TEST_F(PostgresGuard, folds_of_a_tenant_that_do_not_follow_each_other_are_all_lost) {
  Tenant tenant = tenant_named(acme, "acme", 1);
  std::vector<Frame> frames(2);
  frames[0].tenants = {tenant_fold(tenant, 1)};
  frames[1].tenants = {tenant_fold(tenant, 1)};
  EXPECT_EQ(one_->commit(frames).size(), 1u);
  EXPECT_TRUE(one_->tenants().empty());
}

TEST_F(PostgresGuard, a_whole_history_may_come_in_one_fold) {
  RunFold run = new_run(acme, 1, 5000);
  run.row.status = RunStatus::success;
  run.row.snapshot = std::string(3 << 20, 's');
  EXPECT_TRUE(commit(*one_, run).empty());
  EXPECT_EQ(describe(*other_->load(acme, run_id(1))), describe(run.row));
  EXPECT_EQ(other_->history(run.history.key).lines, run.history.lines);
}

TEST_F(PostgresGuard, runs_are_loaded_as_they_are_now) {
  RunFold run = new_run(acme, 1), foreign = new_run(zeta, 1);
  commit(*one_, frame_of({run, foreign}));
  std::vector<StreamKey> keys{foreign.history.key, StreamKey::of(acme, run_id(9)), run.history.key};
  EXPECT_EQ(other_->load_all(keys).size(), 2u);
  EXPECT_TRUE(other_->load_all({}).empty());
}

TEST_F(PostgresGuard, an_event_without_a_row_stops_the_process) {
  Frame frame;
  frame.parts = parts_of({StreamKey::of(acme, run_id(1))});
  EXPECT_DEATH(commit(*one_, frame), "also writes the row");
}

}  // namespace
}  // namespace pawl::test
