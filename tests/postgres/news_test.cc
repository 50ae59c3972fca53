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
  std::unique_ptr<PostgresStore> one_ = database_.open(), other_ = database_.open();
};

TEST_F(PostgresNews, a_server_that_begins_to_listen_looks_first) {
  News news = one_->wait_for_news(milliseconds(1000));
  EXPECT_TRUE(news.ready && news.events);
  EXPECT_TRUE(one_->wait_for_news(milliseconds(20)).empty());
}

TEST_F(PostgresNews, what_one_tells_wakes_the_others) {
  one_->wait_for_news(milliseconds(1000));
  other_->wait_for_news(milliseconds(1000));
  std::thread telling([&] {
    // Whoever tells need not be the one who waits.
    std::thread([&] { one_->tell(news_of({tenant_id(7)}, {some_run}), {}); }).join();
    EXPECT_TRUE(one_->wait_for_news(milliseconds(300)).empty());
  });
  News news = other_->wait_for_news(std::chrono::seconds(20));
  EXPECT_EQ(news.tenants, std::vector{tenant_id(7)});
  EXPECT_EQ(news.runs, std::vector{some_run});
  EXPECT_FALSE(news.ready);
  telling.join();
}

TEST_F(PostgresNews, one_server_alone_can_be_told) {
  auto third = database_.open();
  for (auto* store : {one_.get(), other_.get(), third.get()}) store->wait_for_news(milliseconds(1000));
  one_->tell(news_of({}, {some_run}), other_->server_number());
  one_->wait_for_news(milliseconds(50));
  EXPECT_EQ(other_->wait_for_news(std::chrono::seconds(20)).runs.size(), 1u);
  EXPECT_TRUE(third->wait_for_news(milliseconds(50)).empty());
}

TEST_F(PostgresNews, after_a_lost_connection_everything_may_have_been_missed) {
  one_->wait_for_news(milliseconds(1000));
  Sql(database_).rows(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pawl' AND "
      "datname = current_database()");
  News news;
  for (int tries = 0; tries < 50 && news.empty(); ++tries) news = one_->wait_for_news(milliseconds(500));
  EXPECT_TRUE(news.ready && news.events);
}

TEST_F(PostgresNews, behind_a_pooler_one_looks_instead) {
  PostgresOptions options = database_.options();
  options.url = database_.pooled_url();
  PostgresStore pooled(options);
  for (int n = 0; n < 3; ++n) {
    auto begin = std::chrono::steady_clock::now();
    News news = pooled.wait_for_news(std::chrono::seconds(20));
    EXPECT_TRUE(news.ready && news.events);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
  EXPECT_EQ(Sql(database_).number("SELECT count(*) FROM pg_listening_channels()"), 0);
  pooled.tell(news_of({tenant_id(1)}, {}), {});
  pooled.wait_for_news(milliseconds(1));
}

}  // namespace
}  // namespace pawl::test
