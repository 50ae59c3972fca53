// A database that goes away, at every moment: what was being committed has happened once, or is made to.
#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "postgres/postgres_case.h"
#include "postgres/proxy.h"
#include "store/stream.h"
#include "support/depth.h"

namespace pawl::test {
namespace {

using std::chrono::milliseconds;

class PostgresOutage : public PostgresCase {
 protected:
  static constexpr std::uint64_t run_count = 3;

  // Commits an event of each run again and again until `stop`; whatever is lost, or written twice, fails. Since nobody
  // else writes, a commit that happened and was sent again would come back as lost.
  void write_until(PostgresStore& store, const std::atomic<bool>& stop) {
    std::vector<RunFold> runs;
    for (std::uint64_t n = 0; n < run_count; ++n) runs.push_back(new_run(acme, n, 1));
    for (; !stop || written_ < 3; ++written_) {
      auto lost = commit(store, frame_of(runs));
      EXPECT_TRUE(lost.empty()) << "commit " << written_;
      for (RunFold& run : runs) run = later(run, 1, RunStatus::running);
    }
  }
  void wait_for_commits(int count) {
    const int before = written_;
    EXPECT_TRUE(eventually([&] { return written_ >= before + count; }));
  }
  void expect_all_written(Store& store, int commits) {
    for (std::uint64_t n = 0; n < run_count; ++n) {
      StreamKey key = StreamKey::of(acme, run_id(n));
      WholeStream stream = read_stream(store, key);
      EXPECT_TRUE(stream.problems.empty()) << stream.problems.front();
      EXPECT_EQ(stream.folded_seq, static_cast<std::uint64_t>(commits));
      EXPECT_EQ(store.history(key).lines, lines_of(key, 1, static_cast<std::uint64_t>(commits)));
    }
  }
  // Those that are in the middle of something, at varying moments; there may be few of those, where all are slow.
  void kill_backends(int count) {
    Sql sql(database_);
    int killed = 0, tries = 0;
    EXPECT_TRUE(eventually([&] {
      std::this_thread::sleep_for(milliseconds(tries++ % 11));
      killed +=
          static_cast<int>(sql.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pawl' AND "
                                    "datname = current_database() AND state = 'active'")
                               .size());
      return killed >= count;
    }));
  }
  // Goes on committing while `break_it()` does its work, and then compares.
  template <class Break>
  void write_while(const PostgresOptions& options, Break break_it) {
    PostgresStore store(options);
    std::atomic<bool> stop = false;
    std::thread writing([&] { write_until(store, stop); });
    break_it();
    stop = true;
    writing.join();
    EXPECT_TRUE(store.is_reachable());
    expect_all_written(store, written_);
  }

  std::atomic<int> written_ = 0;  // commits
};

TEST_F(PostgresOutage, backends_that_are_killed_at_any_moment_lose_and_repeat_nothing) {
  database_.open();
  write_while(database_.options(), [&] { kill_backends(repeats(8, 40)); });
}

TEST_F(PostgresOutage, the_same_behind_a_pooler) {
  database_.open();
  PostgresOptions options = database_.options();
  options.url = database_.pooled_url();
  write_while(options, [&] { kill_backends(repeats(4, 20)); });
}

TEST_F(PostgresOutage, a_server_that_restarts_under_commits_loses_and_repeats_nothing) {
  database_.open();
  write_while(database_.options(), [&] {
    for (int round = 0; round < repeats(1, 3); ++round)
      for (const char* how : {"fast", "immediate"}) {
        wait_for_commits(5);
        control_server(std::string("restart ") + how);
      }
    wait_for_commits(5);
  });
}

class PostgresCut : public PostgresOutage {
 protected:
  PostgresCut() {
    PostgresOptions options;
    options.url = proxy_.url(database_.name());
    store_ = std::make_unique<PostgresStore>(options);
    run_ = new_run(acme, 1, 1);
    EXPECT_TRUE(commit(*store_, run_).empty());
    next_ = later(run_, 1, RunStatus::running);
  }
  int commits() { return sql_.number("SELECT max(commits) FROM pawl.servers"); }
  void expect_written_once() {
    EXPECT_EQ(store_->history(run_.history.key).lines, lines_of(run_.history.key, 1, 2));
    EXPECT_EQ(commits(), 2);
    EXPECT_TRUE(commit(*store_, later(next_, 1, RunStatus::success)).empty());
  }

  Proxy proxy_;
  Sql sql_{database_};
  std::unique_ptr<PostgresStore> store_;
  RunFold run_, next_;
};

TEST_F(PostgresCut, a_commit_that_happened_and_whose_answer_is_lost_is_not_repeated) {
  proxy_.hold_answers();
  std::thread committing([&] { EXPECT_TRUE(commit(*store_, next_).empty()); });
  EXPECT_TRUE(eventually([&] { return commits() == 2; }));
  proxy_.cut_clients();
  committing.join();
  expect_written_once();
}

TEST_F(PostgresCut, what_was_left_out_is_told_though_the_answer_is_lost) {
  {
    auto other = database_.open();
    commit(*other, next_);
  }
  proxy_.hold_answers();
  std::vector<Lost> lost;
  std::thread committing([&] { lost = commit(*store_, frame_of({next_, new_run(acme, 2, 1)})); });
  EXPECT_TRUE(eventually([&] { return commits() == 2; }));
  proxy_.cut_clients();
  committing.join();
  EXPECT_EQ(ids_of(lost), std::vector{run_id(1)});
}

TEST_F(PostgresCut, a_request_that_arrives_after_its_connection_was_given_up_is_refused) {
  proxy_.hold_requests();
  Frame frame = frame_of({next_});
  frame.starts = {{acme, {"triage"}, run_time(1)}};  // which no guard keeps from being written twice
  std::thread committing([&] { EXPECT_TRUE(commit(*store_, frame).empty()); });
  EXPECT_TRUE(eventually([&] { return proxy_.holds_request(); }));
  proxy_.cut_clients();
  committing.join();
  EXPECT_EQ(commits(), 2);
  proxy_.release();
  // The late one has its turn, and is refused; its connection ends then.
  EXPECT_TRUE(eventually([&] {
    return sql_.number(
               "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'pawl' AND "
               "query LIKE '%pawl.commit%'") == 1;
  }));
  EXPECT_EQ(sql_.number("SELECT count(*) FROM pawl.starts"), 1);
  expect_written_once();
}

TEST_F(PostgresCut, a_commit_that_still_runs_is_waited_for) {
  Sql blocker(database_);
  blocker.rows("BEGIN");
  blocker.rows("SELECT FROM pawl.runs FOR UPDATE");
  std::atomic<bool> done = false;
  std::thread committing([&] {
    EXPECT_TRUE(commit(*store_, next_).empty());
    done = true;
  });
  auto waiting = [&](const char* what) {
    return sql_.number(
        fmt::format("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                    "wait_event_type = 'Lock' AND query LIKE '%{}%'",
                    what));
  };
  EXPECT_TRUE(eventually([&] { return waiting("pawl.commit(") == 1; }));
  proxy_.hold_answers();
  proxy_.cut_clients();
  EXPECT_TRUE(eventually([&] { return waiting("epoch + 1") == 1; }));
  EXPECT_FALSE(done);
  blocker.rows("COMMIT");
  committing.join();
  expect_written_once();
}

TEST_F(PostgresOutage, who_stops_waiting_is_told_so) {
  PostgresOptions options = database_.options();
  std::atomic<int> reports = 0;
  options.report = [&](const std::string&) { ++reports; };
  options.list_patience = milliseconds(300);
  PostgresStore store(options);
  EXPECT_TRUE(commit(store, new_run(acme, 1)).empty());
  control_server("stop immediate");
  std::string failed_commit, failed_load;
  std::thread committing([&] { failed_commit = failure_of([&] { commit(store, new_run(acme, 2)); }); });
  std::thread loading([&] { failed_load = failure_of([&] { store.load(acme, run_id(1)); }); });
  EXPECT_TRUE(eventually([&] { return !store.is_reachable(); }));
  auto failed_list = failure_of([&] { store.list_runs(acme, {}); });
  EXPECT_NE(failed_list.find(database_.name()), std::string::npos) << failed_list;
  EXPECT_EQ(failed_commit, "");
  store.stop_waiting();
  committing.join();
  loading.join();
  EXPECT_NE(failed_commit.find(database_.name()), std::string::npos) << failed_commit;
  EXPECT_NE(failed_load, "");
  EXPECT_EQ(reports, 1);
  control_server("start");
}

TEST_F(PostgresOutage, a_refusal_that_passes_is_tried_again) {
  auto store = database_.open();
  Sql sql(database_);
  for (const char* state : {"40P01", "40001", "53100", "57014", "55P03"}) {
    // A sequence counts on though the transaction is undone.
    sql.rows(fmt::format(
        "CREATE SEQUENCE pawl.tries; GRANT USAGE ON SEQUENCE pawl.tries TO pawl;"
        "CREATE FUNCTION pawl.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('pawl.tries') < 3 "
        "THEN RAISE EXCEPTION 'not now' USING ERRCODE = '{}'; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON pawl.events FOR EACH ROW EXECUTE FUNCTION pawl.refuse()",
        state));
    RunFold run = new_run(acme, sql.number("SELECT count(*) FROM pawl.runs") + 1u);
    EXPECT_TRUE(commit(*store, run).empty()) << state;
    EXPECT_EQ(sql.number("SELECT last_value FROM pawl.tries"), 3);
    sql.rows("DROP TRIGGER refuse ON pawl.events; DROP FUNCTION pawl.refuse; DROP SEQUENCE pawl.tries");
  }
  EXPECT_TRUE(store->is_reachable());
}

TEST_F(PostgresOutage, an_error_that_stays_is_said) {
  auto store = database_.open();
  Sql(database_).rows("DROP FUNCTION pawl.commit");
  auto failure = failure_of([&] { commit(*store, new_run(acme, 1)); });
  EXPECT_NE(failure.find("not those of this pawl"), std::string::npos) << failure;
  Sql(database_).rows("ALTER TABLE pawl.approvals OWNER TO postgres");
  failure = failure_of([&] { store->list_approvals(acme, {.limit = 1}); });
  EXPECT_NE(failure.find("rights"), std::string::npos) << failure;
}

TEST_F(PostgresOutage, a_database_that_went_back_in_time_is_noticed) {
  auto store = database_.open();
  commit(*store, new_run(acme, 1));
  commit(*store, new_run(acme, 2));
  Sql sql(database_);
  sql.rows("UPDATE pawl.servers SET commits = commits - 1");
  sql.rows(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pawl' AND datname = current_database()");
  auto failure = failure_of([&] { commit(*store, new_run(acme, 3)); });
  EXPECT_NE(failure.find("lost commits"), std::string::npos) << failure;
}

}  // namespace
}  // namespace pawl::test
