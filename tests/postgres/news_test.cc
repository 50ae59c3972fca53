// What servers tell each other.
#include <thread>

#include "postgres/postgres_case.h"
#include "store/postgres/news_wire.h"

namespace pawl::test {
namespace {

using std::chrono::milliseconds;

const StreamKey some_run = StreamKey::of(tenant_id(1), run_id(1));

News news_of(std::vector<TenantId> tenants, std::vector<StreamKey> runs) {
  News news;
  news.tenants = std::move(tenants);
  news.runs = std::move(runs);
  return news;
}

TEST(PostgresNewsWire, comes_back_as_it_was_told) {
  News news = news_of({tenant_id(1), tenant_id(2)}, {some_run});
  news.ready = news.events = true;
  auto messages = postgres::print_news(news, 3, {});
  ASSERT_EQ(messages.size(), 1u);
  News heard;
  postgres::read_news(messages[0], 4, heard);
  EXPECT_TRUE(heard.ready && heard.events);
  EXPECT_EQ(heard.tenants, news.tenants);
  EXPECT_EQ(heard.runs, news.runs);
}

TEST(PostgresNewsWire, is_not_for_its_sender_nor_for_those_it_does_not_name) {
  News news = news_of({tenant_id(1)}, {}), heard;
  postgres::read_news(postgres::print_news(news, 3, {})[0], 3, heard);
  postgres::read_news(postgres::print_news(news, 3, 5)[0], 4, heard);
  for (const char* nonsense : {"", " ", "x", "1", "1 *", "1 * t:", "1 * t:12 r:zz ready2", "-1 * ready"})
    postgres::read_news(nonsense, 4, heard);
  EXPECT_TRUE(heard.empty());
  postgres::read_news(postgres::print_news(news, 3, 4)[0], 4, heard);
  EXPECT_FALSE(heard.empty());
}

TEST(PostgresNewsWire, much_of_it_is_several_messages) {
  News news, heard;
  for (std::uint64_t n = 0; n < 1000; ++n) news.runs.push_back(StreamKey::of(tenant_id(1), run_id(n)));
  for (const std::string& message : postgres::print_news(news, 3, {})) {
    EXPECT_LT(message.size(), 8000u);
    postgres::read_news(message, 4, heard);
  }
  EXPECT_EQ(heard.runs, news.runs);
}

class PostgresNews : public PostgresCase {
 protected:
  // It is on its way when this returns: who waits sends what is to be told.
  static void tell(PostgresStore& store, const News& news, std::optional<std::uint32_t> server = {}) {
    store.tell(news, server);
    store.wait_for_news(Duration(0));
  }

  std::unique_ptr<PostgresStore> one_ = database_.open(), other_ = database_.open();
};

TEST_F(PostgresNews, a_server_that_begins_to_listen_looks_first) {
  News news = one_->wait_for_news(hang_limit);
  EXPECT_TRUE(news.ready && news.events);
  tell(*other_, news_of({tenant_id(7)}, {}));
  news = one_->wait_for_news(hang_limit);
  EXPECT_EQ(news.tenants, std::vector{tenant_id(7)});
  EXPECT_FALSE(news.ready || news.events) << "once";
}

TEST_F(PostgresNews, what_one_tells_wakes_the_others_and_not_itself) {
  one_->wait_for_news(hang_limit);
  other_->wait_for_news(hang_limit);
  News heard;
  std::thread waiting([&] { heard = one_->wait_for_news(hang_limit); });
  // Whoever tells need not be the one who waits.
  std::thread telling([&] { one_->tell(news_of({tenant_id(7)}, {some_run}), {}); });
  News news = other_->wait_for_news(hang_limit);
  telling.join();
  EXPECT_EQ(news.tenants, std::vector{tenant_id(7)});
  EXPECT_EQ(news.runs, std::vector{some_run});
  EXPECT_FALSE(news.ready);
  // News come in the order in which they were told: what it hears first is not its own.
  tell(*other_, news_of({tenant_id(8)}, {}));
  waiting.join();
  EXPECT_EQ(heard.tenants, std::vector{tenant_id(8)});
  EXPECT_TRUE(heard.runs.empty());
}

TEST_F(PostgresNews, one_server_alone_can_be_told) {
  auto third = database_.open();
  for (auto* store : {one_.get(), other_.get(), third.get()}) store->wait_for_news(hang_limit);
  tell(*one_, news_of({}, {some_run}), other_->server_number());
  EXPECT_EQ(other_->wait_for_news(hang_limit).runs.size(), 1u);
  tell(*other_, news_of({tenant_id(8)}, {}));
  News news = third->wait_for_news(hang_limit);
  EXPECT_EQ(news.tenants, std::vector{tenant_id(8)});
  EXPECT_TRUE(news.runs.empty());
}

TEST_F(PostgresNews, after_a_lost_connection_everything_may_have_been_missed) {
  one_->wait_for_news(hang_limit);
  Sql(database_).rows(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pawl' AND "
      "datname = current_database()");
  News news;
  EXPECT_TRUE(eventually([&] {
    news = one_->wait_for_news(milliseconds(500));
    return !news.empty();
  }));
  EXPECT_TRUE(news.ready && news.events);
}

TEST_F(PostgresNews, what_could_not_be_sent_is_told_with_the_next_connection) {
  one_->wait_for_news(hang_limit);
  other_->wait_for_news(hang_limit);
  Sql(database_).rows(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pawl' AND "
      "datname = current_database()");
  other_->wait_for_news(hang_limit);  // it listens again
  other_->wait_for_news(hang_limit);
  one_->tell(news_of({tenant_id(7)}, {}), {});
  std::vector<TenantId> heard;
  EXPECT_TRUE(eventually([&] {
    one_->wait_for_news(milliseconds(10));
    for (TenantId tenant : other_->wait_for_news(milliseconds(10)).tenants) heard.push_back(tenant);
    return !heard.empty();
  }));
  EXPECT_EQ(heard, std::vector{tenant_id(7)});
}

TEST_F(PostgresNews, what_nobody_told_is_found_by_looking) {
  EXPECT_FALSE(one_->reports_all()) << "nobody waits for news yet";
  one_->wait_for_news(hang_limit);
  EXPECT_TRUE(one_->reports_all());
  commit(*other_, new_run(acme, 1));
  EXPECT_TRUE(eventually([&] { return one_->wait_for_news(hang_limit).events; }));
}

TEST_F(PostgresNews, a_journal_that_an_earlier_transaction_holds_back_says_so) {
  commit(*one_, new_run(acme, 1));
  Sql slow(database_);
  slow.rows("BEGIN");
  slow.rows("SELECT pg_current_xact_id()");
  const Position before = one_->journal_end().position;
  commit(*one_, new_run(acme, 2));
  EXPECT_TRUE(one_->journal_end().is_held_back);
  EXPECT_EQ(one_->journal_end().position, before);
  slow.rows("COMMIT");
  EXPECT_TRUE(eventually([&] { return !one_->journal_end().is_held_back; }));
  EXPECT_GT(one_->journal_end().position, before);
}

TEST_F(PostgresNews, behind_a_pooler_one_looks_instead) {
  PostgresOptions options = database_.options();
  options.url = database_.pooled_url();
  PostgresStore pooled(options);
  News news = pooled.wait_for_news(hang_limit);
  EXPECT_TRUE(news.ready && news.events);
  for (std::uint64_t n = 1; n <= 3; ++n) {
    commit(*one_, new_run(acme, n));
    EXPECT_TRUE(eventually([&] { return pooled.wait_for_news(hang_limit).events; }));
  }
  EXPECT_EQ(Sql(database_).number("SELECT count(*) FROM pg_listening_channels()"), 0);
  pooled.tell(news_of({tenant_id(1)}, {}), {});
  pooled.wait_for_news(milliseconds(1));
}

}  // namespace
}  // namespace pawl::test
