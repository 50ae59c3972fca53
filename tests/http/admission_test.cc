// Who may use how much of a server: unknown clients, callbacks, and the accounts of known ones.
#include "http/client.h"

namespace pawl::http {
namespace {

// "Authorization: NAME" makes a client known, with the account of that name; /callback is one that shows it later.
class Admissions : public ServerTest {
 protected:
  Admissions() {
    handler.admitting = [this](const Request& head) {
      const std::string name(head.header("authorization"));
      if (!name.empty()) return Admission{.account = account(name)};
      if (head.path == "/callback") return Admission{.client = Admission::Client::callback};
      if (head.path == "/open") return Admission{.client = Admission::Client::unknown};
      return Admission{.client = Admission::Client::unknown, .refusal = Response{.status = 401, .body = "no"}};
    };
    options.header_timeout = options.body_timeout = options.callback_timeout = options.idle_timeout = hang_limit;
  }
  ~Admissions() override { server_.reset(); }

  std::shared_ptr<Account> account(const std::string& name) {
    std::lock_guard lock(mutex_);
    auto& found = accounts_[name];
    if (!found) found = std::make_shared<Account>();
    return found;
  }
  static std::string post_as(std::string_view name, std::size_t announced, std::size_t sent,
                             std::string_view path = "/") {
    std::string out = "POST " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n";
    if (!name.empty()) out += "Authorization: " + std::string(name) + "\r\n";
    return out + "Content-Length: " + std::to_string(announced) + "\r\n\r\n" + std::string(sent, 'x');
  }
  Client& open(std::string_view text) {
    clients_.push_back(std::make_unique<Client>(port()));
    clients_.back()->send(text);
    return *clients_.back();
  }

  std::vector<std::unique_ptr<Client>> clients_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Account>> accounts_;
};

TEST_F(Admissions, bodies_of_unknown_clients_are_not_read) {
  start();
  for (const char* length : {"Content-Length: 8388608", "Content-Length: 18446744073709551615",
                             "Transfer-Encoding: chunked", "Content-Length: 100000000000\r\nExpect: 100-continue"}) {
    Client& client = open("POST / HTTP/1.1\r\nHost: h\r\n" + std::string(length) + "\r\n\r\n");
    const auto reply = read_reply(client);
    EXPECT_EQ(reply.status, 401) << length;
    EXPECT_EQ(reply.headers.at("connection"), "close") << length;
    client.shut_sending();
    EXPECT_EQ(client.rest(), "");
  }
  EXPECT_EQ(read_reply(open("POST /open HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n")).status, 400);
  EXPECT_EQ(server_->counts().requests, 0u);
}

TEST_F(Admissions, a_refusal_without_a_body_keeps_the_connection) {
  start();
  Client& client = open(get("/"));
  EXPECT_EQ(read_reply(client).status, 401);
  client.send(get("/", "Authorization: a\r\n"));
  EXPECT_EQ(read_reply(client).status, 200);
}

TEST_F(Admissions, the_handler_gets_back_what_it_found_in_the_head) {
  handler.admitting = [](const Request& head) {
    return Admission{.admitted =
                         std::make_shared<const std::string>(head.path + (head.has_body ? " with" : " without"))};
  };
  handler.handling = [](Request request, Responder respond) {
    respond({.body = *std::static_pointer_cast<const std::string>(request.admitted)});
  };
  start();
  EXPECT_EQ(ask(get("/a")).body, "/a without");
  EXPECT_EQ(ask(post("/b", "x")).body, "/b with");
}

TEST_F(Admissions, an_admission_that_throws_is_answered) {
  handler.admitting = [](const Request&) -> Admission { throw std::runtime_error("broken"); };
  start();
  EXPECT_EQ(ask(get("/")).status, 500);
}

TEST_F(Admissions, unknown_clients_make_way_for_newer_ones_and_take_nothing_from_known_ones) {
  options.connections_max = 8;
  options.unknown_connections_max = 4;
  start();
  Client& known = open(get("/", "Authorization: a\r\n"));
  EXPECT_EQ(read_reply(known).status, 200);
  for (int i = 0; i < 50; ++i) {
    open(i % 2 ? "GET / HTTP/1.1\r\nHost: h\r\nX-Slow:" : "");
    EXPECT_EQ(ask(get("/", "Authorization: a\r\n")).status, 200) << i;
  }
  known.send(get("/", "Authorization: a\r\n"));
  EXPECT_EQ(read_reply(known).status, 200);
  EXPECT_TRUE(eventually([&] { return server_->counts().open <= 5; })) << server_->counts().open;
  EXPECT_GE(server_->counts().disconnected, 46u);
}

TEST_F(Admissions, a_client_whose_key_is_good_no_more_is_unknown_again) {
  options.connections_max = 1;
  start();
  Client& one = open(get("/", "Authorization: a\r\n"));
  EXPECT_EQ(read_reply(one).status, 200);
  EXPECT_EQ(ask(get("/", "Authorization: b\r\n")).status, 503);
  one.send(get("/"));
  EXPECT_EQ(read_reply(one).status, 401);
  EXPECT_EQ(ask(get("/", "Authorization: b\r\n")).status, 200);
}

TEST_F(Admissions, callbacks_have_a_small_limit) {
  options.callback_bytes_max = 1000;
  start();
  EXPECT_EQ(ask(post_as("", 1000, 1000, "/callback")).status, 200);
  EXPECT_EQ(ask(post_as("", 1001, 0, "/callback")).status, 413);
  Client& chunked = open("POST /callback HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 11; ++i) chunked.send("64\r\n" + std::string(100, 'x') + "\r\n");
  EXPECT_EQ(read_reply(chunked).status, 413);
}

TEST_F(Admissions, callbacks_that_do_not_come_leave_room_for_those_that_do) {
  options.callbacks_max = 4;
  start();
  for (int i = 0; i < 20; ++i) {
    open(post_as("", 1000, 10, "/callback"));
    EXPECT_EQ(ask(post_as("", 1000, 1000, "/callback")).status, 200);
  }
  EXPECT_TRUE(eventually([&] { return server_->counts().disconnected >= 16; }));
}

TEST_F(Admissions, callbacks_have_their_own_time) {
  options.callback_timeout = 60ms;
  start();
  EXPECT_EQ(read_reply(open(post_as("", 1000, 10, "/callback"))).status, 408);
}

TEST_F(Admissions, one_account_leaves_connections_for_the_others) {
  options.connections_max = 16;
  start();
  int good = 0;
  for (int i = 0; i < 30; ++i) {
    const auto reply = read_reply(open(get("/", "Authorization: a\r\n")));
    good += reply.status == 200;
    if (reply.status != 200) {
      EXPECT_EQ(reply.status, 429);
      EXPECT_EQ(reply.body, "TENANT_LIMIT");
      EXPECT_EQ(reply.headers.at("retry-after"), "1");
    }
  }
  EXPECT_EQ(good, 12);
  EXPECT_EQ(read_reply(open(get("/", "Authorization: b\r\n"))).status, 200);
  EXPECT_EQ(read_reply(open(get("/", "Authorization: c\r\n"))).status, 200);
}

TEST_F(Admissions, an_account_can_have_a_limit_of_its_own) {
  start();
  account("a")->connections_max = 2;
  EXPECT_EQ(read_reply(open(get("/", "Authorization: a\r\n"))).status, 200);
  EXPECT_EQ(read_reply(open(get("/", "Authorization: a\r\n"))).status, 200);
  EXPECT_EQ(read_reply(open(get("/", "Authorization: a\r\n"))).status, 429);
  clients_[0]->close();
  EXPECT_TRUE(eventually([&] { return account("a")->connections == 1; }));
  EXPECT_EQ(read_reply(open(get("/", "Authorization: a\r\n"))).status, 200);
}

TEST_F(Admissions, one_account_leaves_room_for_the_bodies_of_the_others) {
  options.buffered_bytes_max = 1 << 20;
  start();
  int refused = 0;
  for (int i = 0; i < 8; ++i) {
    Client& client = open(post_as("a", 1 << 20, 200'000));
    refused += eventually([&] { return client.hears_within(0ms) || account("a")->body_bytes >= 180'000u * (i + 1); }) &&
               client.hears_within(0ms);
  }
  EXPECT_GT(refused, 0);
  EXPECT_LE(account("a")->body_bytes, 600'000u);
  EXPECT_EQ(ask(post_as("b", 200'000, 200'000)).status, 200);
  EXPECT_EQ(ask(post_as("a", 1000, 1000)).status, 200) << "the beginning of a body does not count";
  clients_.clear();
  EXPECT_TRUE(eventually([&] { return account("a")->body_bytes == 0 && account("a")->connections == 0; }));
}

}  // namespace
}  // namespace pawl::http
