#include "http/client.h"

namespace pawl::http {
namespace {

class Stopping : public ServerTest {
 protected:
  // Requests wait until the test answers them.
  Stopping() {
    handler.handling = [this](Request, Responder respond) {
      std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(respond));
    };
  }
  ~Stopping() override { server_.reset(); }

  bool waits(std::size_t requests) {
    return eventually([&] {
      std::lock_guard lock(mutex_);
      return waiting_.size() == requests;
    });
  }
  void answer_all() {
    std::lock_guard lock(mutex_);
    for (auto& respond : waiting_) respond({.body = "done"});
    waiting_.clear();
  }

  std::mutex mutex_;
  std::vector<Responder> waiting_;
};

TEST_F(Stopping, closes_idle_connections_and_lets_requests_end) {
  options.threads = 2;
  start();
  Client idle(port()), working(port()), sending(port()), other_idle(port());  // two for each thread
  // Once the first answer is there, the server knows of the second request.
  sending.send(get("/") + "GET / HTTP/1.1\r\n");
  ASSERT_TRUE(waits(1));
  answer_all();
  EXPECT_EQ(read_reply(sending).body, "done");
  working.send(get("/"));
  ASSERT_TRUE(waits(1));
  std::jthread stopping([&] { server_->stop(hang_limit); });
  EXPECT_EQ(idle.rest() + other_idle.rest(), "") << "both threads know that they stop";
  sending.send("Host: here\r\n\r\n");
  ASSERT_TRUE(waits(2)) << "a request that has begun to come is taken";
  answer_all();
  for (Client* client : {&working, &sending}) {
    const auto reply = read_reply(*client);
    EXPECT_EQ(reply.body, "done");
    EXPECT_EQ(reply.headers.at("connection"), "close");
    EXPECT_EQ(client->rest(), "");
  }
  stopping.join();
  EXPECT_EQ(server_->counts().open, 0u);
}

TEST_F(Stopping, waits_no_longer_than_the_grace) {
  start();
  Client hanging(port());
  hanging.send(get("/"));
  ASSERT_TRUE(waits(1));
  const auto begin = std::chrono::steady_clock::now();
  server_->stop(50ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 50ms);
  EXPECT_EQ(hanging.rest(), "");
  answer_all();  // to nobody
}

TEST_F(Stopping, is_quick_when_there_is_nothing_to_wait_for) {
  start();
  Client idle(port());
  idle.send("\r\n");
  ASSERT_TRUE(eventually([&] { return server_->counts().open == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  server_->stop(2 * hang_limit);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, hang_limit);
}

TEST_F(Stopping, accepts_no_more) {
  start();
  const auto where = port();
  server_->stop(0ms);
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(where);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_NE(0, ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address));
  ::close(socket);
}

TEST_F(Stopping, may_be_asked_for_twice_and_before_the_start) {
  start();
  server_->stop(0ms);
  server_->stop(0ms);
  server_.emplace(options, handler);
  server_->stop(0ms);
  server_->start();
  EXPECT_EQ(server_->counts().accepted, 0u);
}

TEST_F(Stopping, in_the_middle_of_everything_leaves_nothing_behind) {
  options.threads = 2;
  start();
  std::atomic<bool> stopped = false;
  std::jthread answering([&] {
    while (!stopped) {
      answer_all();
      std::this_thread::yield();
    }
  });
  std::vector<std::jthread> clients;
  for (int c = 0; c < 4; ++c)
    clients.emplace_back([&, c] {
      Client client(port());
      for (int i = 0; client.send(c % 2 ? get("/") : post("/", std::string(5000, 'x'))); ++i)
        if (read_reply(client).status != 200) break;
    });
  ASSERT_TRUE(eventually([&] { return server_->counts().requests > 200; }));
  server_->stop(20ms);
  EXPECT_EQ(server_->counts().open, 0u);
  for (auto& client : clients) client.join();
  stopped = true;
  answering.join();
}

}  // namespace
}  // namespace pawl::http
