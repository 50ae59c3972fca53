#include "http/client.h"

namespace pawl::http {
namespace {

class Limits : public ServerTest {
 protected:
  void expect_end(Client& client, int status, std::string_view code) {
    const auto reply = read_reply(client);
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.body, code);
    EXPECT_EQ(reply.headers.at("content-type"), "application/problem+json");
    EXPECT_EQ(reply.headers.at("connection"), "close");
    client.shut_sending();
    EXPECT_EQ(client.rest(), "");
    EXPECT_TRUE(eventually([&] { return server_->counts().open == 0; }));
  }
};

TEST_F(Limits, headers_that_are_too_large_are_refused) {
  options.header_bytes_max = 1024;
  start();
  Client client(port());
  client.send(get("/", "X: " + std::string(1024, 'x') + "\r\n"));
  expect_end(client, 431, "HEADERS_TOO_LARGE");
}

TEST_F(Limits, headers_that_fit_pass) {
  options.header_bytes_max = 1024;
  start();
  EXPECT_EQ(ask(get("/", "X: " + std::string(900, 'x') + "\r\n")).status, 200);
}

TEST_F(Limits, a_target_that_is_too_large_is_refused) {
  options.header_bytes_max = 1024;
  start();
  Client client(port());
  client.send("GET /" + std::string(100'000, 'x'));
  expect_end(client, 431, "HEADERS_TOO_LARGE");
}

TEST_F(Limits, headers_that_come_line_by_line_are_counted_together) {
  options.header_bytes_max = 1024;
  start();
  Client client(port());
  client.send("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 200 && !client.hears_within(0ms); ++i) {
    client.send("X-" + std::to_string(i) + ": 0123456789\r\n");
    client.hears_within(1ms);
  }
  expect_end(client, 431, "HEADERS_TOO_LARGE");
}

TEST_F(Limits, too_many_headers_are_refused) {
  start();
  std::string many;
  for (int i = 0; i < 200; ++i) many += "a:b\r\n";
  Client client(port());
  client.send(get("/", many));
  expect_end(client, 431, "HEADERS_TOO_LARGE");
}

TEST_F(Limits, a_body_that_is_too_large_is_refused_without_reading_it) {
  options.body_bytes_max = 1000;
  start();
  Client client(port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n");
  EXPECT_TRUE(client.hears_within(hang_limit)) << "nothing of the body has been sent";
  expect_end(client, 413, "BODY_TOO_LARGE");
  EXPECT_EQ(server_->counts().requests, 0u);
}

TEST_F(Limits, a_client_that_sends_too_large_a_body_still_gets_the_answer) {
  options.body_bytes_max = 1000;
  start();
  Client client(port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\n" + std::string(500'000, 'x'));
  expect_end(client, 413, "BODY_TOO_LARGE");
}

TEST_F(Limits, a_body_that_never_ends_is_cut_off) {
  options.body_bytes_max = 1000;
  start();
  Client client(port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n");
  const std::string block(1 << 20, 'x');
  int sent = 0;
  while (sent < 1000 && client.send(block)) ++sent;
  EXPECT_LT(sent, 50) << "megabytes";
}

TEST_F(Limits, chunks_are_counted_together) {
  options.body_bytes_max = 1000;
  start();
  Client client(port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 11; ++i) client.send("64\r\n" + std::string(100, 'x') + "\r\n");
  expect_end(client, 413, "BODY_TOO_LARGE");
}

TEST_F(Limits, a_body_at_the_limit_passes) {
  options.body_bytes_max = 300'000;
  start();
  const std::string body(300'000, 'x');
  EXPECT_EQ(ask(post("/", body)).body, "/||" + body);
}

TEST_F(Limits, chunk_extensions_have_a_limit) {
  start();
  Client client(port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(100'000, 'x'));
  expect_end(client, 400, "REQUEST_MALFORMED");
}

TEST_F(Limits, headers_that_come_too_slowly_are_given_up) {
  options.header_timeout = 60ms;
  listen();
  Client client(port());
  client.send("GET / HTTP/1.1\r\nHost:");
  start();
  expect_end(client, 408, "REQUEST_TOO_SLOW");
}

TEST_F(Limits, headers_that_trickle_are_given_up) {
  options.header_timeout = 60ms;
  listen();
  Client client(port());
  client.send("GET / HTTP/1.1\r\n");
  start();
  while (!client.hears_within(5ms)) client.send("a");
  expect_end(client, 408, "REQUEST_TOO_SLOW");
}

TEST_F(Limits, the_second_requests_headers_have_the_same_time) {
  options.header_timeout = 60ms;
  listen();
  Client client(port());
  client.send(get("/"));
  start();
  EXPECT_EQ(read_reply(client).status, 200);
  client.send("GET / HTT");
  expect_end(client, 408, "REQUEST_TOO_SLOW");
}

TEST_F(Limits, a_connection_that_says_nothing_is_closed) {
  options.header_timeout = 60ms;
  start();
  Client client(port());
  EXPECT_EQ(client.rest(), "");
}

TEST_F(Limits, an_idle_connection_is_closed) {
  options.idle_timeout = 60ms;
  start();
  Client client(port());
  client.send(get("/"));
  EXPECT_EQ(read_reply(client).status, 200);
  EXPECT_EQ(client.rest(), "");
}

TEST_F(Limits, a_body_that_comes_too_slowly_is_given_up) {
  options.body_timeout = 60ms;
  start();
  Client client(port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
  while (!client.hears_within(5ms)) client.send("x");
  expect_end(client, 408, "REQUEST_TOO_SLOW");
}

TEST_F(Limits, a_request_that_came_in_time_is_answered_by_a_thread_that_was_busy_until_later) {
  options.header_timeout = 1s;
  std::atomic<bool> busy = false, released = false;
  handler.handling = [&](Request request, Responder respond) {
    if (request.path == "/busy") {
      busy = true;
      EXPECT_TRUE(eventually([&] { return released.load(); }));
    }
    respond({.body = "here"});
  };
  listen();
  Client first(port()), second(port());
  second.send(get("/busy"));
  start();
  ASSERT_TRUE(eventually([&] { return busy.load(); }));
  const auto sent = std::chrono::steady_clock::now();
  first.send(get("/"));
  ASSERT_TRUE(eventually([&] { return std::chrono::steady_clock::now() > sent + 2 * options.header_timeout; }));
  released = true;
  EXPECT_EQ(read_reply(second).status, 200);
  EXPECT_EQ(read_reply(first).status, 200);
}

TEST_F(Limits, a_request_that_the_handler_thinks_about_has_time) {
  options.header_timeout = 200ms;
  std::atomic<bool> asked = false;
  std::optional<Responder> answer;
  handler.handling = [&](Request, Responder respond) {
    answer = std::move(respond);
    asked = true;
  };
  listen();
  Client client(port());
  client.send(get("/"));
  start();
  ASSERT_TRUE(eventually([&] { return asked.load(); }));
  // A later connection that says nothing is closed when its time is over; that of the first one is over by then.
  EXPECT_EQ(Client(port()).rest(), "");
  (*answer)({.body = "at last"});
  EXPECT_EQ(read_reply(client).body, "at last");
}

TEST_F(Limits, a_client_that_does_not_read_its_answer_is_cut_off) {
  options.write_timeout = 60ms;
  handler.handling = [](Request, Responder respond) { respond({.body = std::string(32 << 20, 'x')}); };
  start();
  Client client(port(), 4096);
  client.send(get("/"));
  EXPECT_TRUE(eventually([&] { return server_->counts().requests == 1 && server_->counts().open == 0; }));
}

TEST_F(Limits, too_many_connections_are_told_to_come_back) {
  options.connections_max = 2;
  start();
  Client one(port()), two(port());
  one.send(get("/1"));
  two.send(get("/2"));
  EXPECT_EQ(read_reply(one).status, 200);
  EXPECT_EQ(read_reply(two).status, 200);
  for (int i = 0; i < 3; ++i) {
    Client three(port());
    three.send(get("/3"));
    const auto reply = read_reply(three);
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.body, "TOO_MANY_CONNECTIONS");
    EXPECT_EQ(reply.headers.at("retry-after"), "1");
    EXPECT_EQ(three.rest(), "");
  }
  EXPECT_EQ(server_->counts().refused, 3u);
  one.close();
  ASSERT_TRUE(eventually([&] { return server_->counts().open == 1; }));
  EXPECT_EQ(ask(get("/4")).status, 200);
}

TEST_F(Limits, bodies_of_all_connections_together_have_a_limit) {
  options.buffered_bytes_max = 100'000;
  options.uncounted_body_bytes = 0;
  std::vector<Responder> waiting;
  std::mutex mutex;
  std::atomic<int> asked = 0;
  handler.handling = [&](Request, Responder respond) {
    std::lock_guard lock(mutex);
    waiting.push_back(std::move(respond));
    ++asked;
  };
  start();
  Client one(port());
  one.send(post("/", std::string(60'000, 'x')));
  ASSERT_TRUE(eventually([&] { return asked == 1; }));
  {
    Client two(port());
    two.send(post("/", std::string(60'000, 'x')));
    const auto reply = read_reply(two);
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.body, "TOO_MANY_BYTES");
    EXPECT_EQ(reply.headers.at("retry-after"), "1");
    EXPECT_EQ(two.rest(), "");
  }
  waiting[0]({.body = "done"});
  EXPECT_EQ(read_reply(one).status, 200);
  Client three(port());
  three.send(post("/", std::string(60'000, 'x')));
  ASSERT_TRUE(eventually([&] { return asked == 2; })) << "what was answered no longer counts";
  waiting[1]({.body = "done"});
  EXPECT_EQ(read_reply(three).status, 200);
}

}  // namespace
}  // namespace pawl::http
