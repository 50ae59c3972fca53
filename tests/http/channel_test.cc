#include "http/channel.h"

#include "http/client.h"

namespace pawl::http {
namespace {

std::shared_ptr<const Channel::Message> message(std::string id, std::string data) {
  return std::make_shared<const Channel::Message>(Channel::Message{.id = std::move(id), .data = std::move(data)});
}

// Every request becomes a channel, which the test holds.
class Channels : public ServerTest {
 protected:
  Channels() { become_channels(); }
  ~Channels() override { server_.reset(); }

  void become_channels() {
    handler.handling = [this](Request request, Responder respond) {
      websocket_ = request.wants_websocket;
      respond({.stream = [this](std::shared_ptr<Channel> channel) {
        std::lock_guard lock(mutex_);
        channel_ = std::move(channel);
      }});
    };
  }
  std::shared_ptr<Channel> take_channel() {
    std::shared_ptr<Channel> taken;
    EXPECT_TRUE(eventually([&] {
      std::lock_guard lock(mutex_);
      taken = std::exchange(channel_, nullptr);
      return taken != nullptr;
    }));
    return taken;
  }
  // An open stream of events.
  std::shared_ptr<Channel> open_events(Client& client) {
    client.send(get("/events"));
    events_head_ = read_head(client);
    return take_channel();
  }
  std::shared_ptr<Channel> open_websocket(Client& client) {
    client.send(upgrade());
    websocket_head_ = read_head(client);
    return take_channel();
  }
  static std::string upgrade(std::string_view headers = "") {
    return get("/events",
               "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n"
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: permessage-deflate\r\n" +
                   std::string(headers));
  }
  // The frame's first byte and its payload, which must be shorter than 64 KiB.
  static std::pair<int, std::string> read_frame(Client& client) {
    const auto head = client.exactly(2);
    if (head.size() < 2) return {0, ""};
    std::size_t length = static_cast<unsigned char>(head[1]);
    if (length == 126) {
      const auto more = client.exactly(2);
      length = static_cast<std::size_t>(static_cast<unsigned char>(more[0])) << 8 | static_cast<unsigned char>(more[1]);
    }
    return {static_cast<unsigned char>(head[0]), client.exactly(length)};
  }
  static std::string masked(unsigned first_byte, std::string_view payload) {
    return std::string{static_cast<char>(first_byte), static_cast<char>(0x80 | payload.size())} +
           std::string("\0\0\0\0", 4) + std::string(payload);
  }
  // Pushes until the client, which does not read, has too much to read. The first one has reached it before.
  static int push_until_refused(Channel& channel, Client& client) {
    channel.push(message("0", "x"));
    EXPECT_TRUE(client.hears_within(hang_limit));
    int pushed = 1;
    while (pushed < 100'000 && channel.push(message(std::to_string(pushed), std::string(50'000, 'x')))) ++pushed;
    return pushed;
  }

  Reply events_head_;
  Reply websocket_head_;
  bool websocket_ = false;
  std::mutex mutex_;
  std::shared_ptr<Channel> channel_;
};

TEST_F(Channels, are_streams_of_events) {
  start();
  Client client(port());
  const auto channel = open_events(client);
  EXPECT_EQ(events_head_.status, 200);
  EXPECT_EQ(events_head_.headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(events_head_.headers.at("cache-control"), "no-store");
  EXPECT_FALSE(events_head_.headers.contains("content-length"));
  EXPECT_EQ(server_->counts().channels, 1u);
  EXPECT_TRUE(channel->push(message("7", "{\"a\":1}")));
  EXPECT_TRUE(channel->push(message("8", "two\nlines")));
  EXPECT_EQ(client.until("lines\n\n"), "id: 7\ndata: {\"a\":1}\n\nid: 8\ndata: two\ndata: lines\n\n");
}

TEST(Events, split_data_as_the_standard_says_and_keep_ids_in_one_line) {
  std::string out;
  append_message(out, Framing::events, {.id = "1\n2\r3", .data = "a\r\nb\rc\n\nd\n"});
  EXPECT_EQ(out, "id: 123\ndata: a\ndata: b\ndata: c\ndata: \ndata: d\ndata: \n\n");
  out.clear();
  append_message(out, Framing::events, {.id = "6.1", .data = ""});
  EXPECT_EQ(out, "id: 6.1\n\n") << "no event, but readers remember the id";
}

TEST(Events, of_any_size_look_the_same_in_parts) {
  for (const Channel::Message& one :
       {Channel::Message{"6.1", "{\"a\":1}"}, {"", "x"}, {"6.1", std::string(70'000, 'y')}})
    for (const auto framing : {Framing::events, Framing::websocket}) {
      std::string whole, parts;
      append_message(whole, framing, one);
      const auto tail = append_message_head(parts, framing, one);
      ASSERT_TRUE(tail);
      EXPECT_EQ(parts + one.data + std::string(*tail), whole);
    }
  std::string out;
  EXPECT_FALSE(append_message_head(out, Framing::events, {"1", "two\nlines"}));
  EXPECT_EQ(out, "");
}

TEST_F(Channels, show_that_they_live) {
  options.channel_heartbeat = 40ms;
  start();
  Client client(port());
  const auto channel = open_events(client);
  EXPECT_EQ(client.until("\n\n"), ":\n\n");
  EXPECT_EQ(client.until("\n\n"), ":\n\n");
}

TEST_F(Channels, are_for_many_pushers_on_many_threads) {
  options.threads = 2;
  options.channel_bytes_max = 1 << 20;
  start();
  Client client(port());
  const auto channel = open_events(client);
  std::vector<std::jthread> pushers;
  for (int p = 0; p < 4; ++p)
    pushers.emplace_back([&] {
      for (int i = 0; i < 250; ++i) ASSERT_TRUE(channel->push(message("", "x")));
    });
  const std::string one = "data: x\n\n";
  EXPECT_EQ(client.exactly(1000 * one.size()).size(), 1000 * one.size());
  for (auto& pusher : pushers) pusher.join();
}

TEST_F(Channels, are_closed_when_the_client_goes) {
  start();
  Client client(port());
  const auto channel = open_events(client);
  EXPECT_TRUE(channel->is_open());
  client.close();
  EXPECT_TRUE(eventually([&] { return !channel->is_open(); }));
  EXPECT_FALSE(channel->push(message("1", "x")));
  EXPECT_TRUE(eventually([&] { return server_->counts().open == 0 && server_->counts().channels == 0; }));
}

TEST_F(Channels, end_when_the_last_holder_lets_go_and_deliver_what_is_queued) {
  start();
  Client client(port());
  auto channel = open_events(client);
  channel->push(message("1", "last"));
  channel.reset();
  EXPECT_EQ(client.rest(), "id: 1\ndata: last\n\n");
  client.close();
  EXPECT_TRUE(eventually([&] { return server_->counts().open == 0; }));
}

TEST_F(Channels, tell_a_client_that_is_too_slow_where_to_resume) {
  options.channel_bytes_max = 1'000'000;
  start();
  Client client(port(), 4096);
  const auto channel = open_events(client);
  const int pushed = push_until_refused(*channel, client);
  EXPECT_GT(pushed, 10);
  EXPECT_FALSE(channel->is_open());
  EXPECT_FALSE(channel->push(message("late", "x")));

  const auto all = client.rest();
  const auto resume = all.find("event: resume\ndata: ");
  ASSERT_NE(resume, std::string::npos);
  const auto id = all.substr(resume + 20, all.find('\n', resume + 20) - resume - 20);
  EXPECT_EQ(all.substr(resume), "event: resume\ndata: " + id + "\n\n");
  EXPECT_NE(all.find("id: " + id + "\n"), std::string::npos) << "this one was delivered";
  EXPECT_EQ(all.find("id: " + std::to_string(std::stoi(id) + 1) + "\n"), std::string::npos) << "and none after it";
  EXPECT_LT(std::stoi(id), pushed);
}

TEST_F(Channels, call_when_there_is_room_again_and_deliver_all_of_it_to_whoever_reads) {
  options.channel_bytes_max = 100'000;
  start();
  Client client(port(), 4096);
  const auto channel = open_events(client);
  // The channel calls once more when it ends, after this test.
  const auto calls = std::make_shared<std::atomic<int>>(0);
  channel->on_room([calls] { ++*calls; });
  int pushed = 0;
  auto push_all_there_is_room_for = [&] {
    for (; pushed < 400 && channel->has_room(); ++pushed)
      ASSERT_TRUE(channel->push(message(std::to_string(pushed), std::string(pushed % 7 ? 5'000 : 150'000, 'x'))));
  };
  push_all_there_is_room_for();
  EXPECT_LT(pushed, 400);
  EXPECT_TRUE(channel->is_open());
  for (int next = 0; next < 400; ++next) {
    const auto event = client.until("\n\n");
    ASSERT_TRUE(event.starts_with("id: " + std::to_string(next) + "\ndata: xxx")) << event.substr(0, 40);
    if (calls->exchange(0) > 0) push_all_there_is_room_for();
    if (next + 1 < 400 && next + 1 == pushed) {
      ASSERT_TRUE(eventually([&] { return *calls > 0; }));
      *calls = 0;
      push_all_there_is_room_for();
    }
  }
  EXPECT_TRUE(channel->is_open());
}

TEST_F(Channels, call_when_the_client_goes) {
  start();
  Client client(port());
  const auto channel = open_events(client);
  // The channel calls once more when it ends, after this test.
  const auto calls = std::make_shared<std::atomic<int>>(0);
  channel->on_room([calls] { ++*calls; });
  client.close();
  EXPECT_TRUE(eventually([&] { return *calls > 0; }));
  EXPECT_FALSE(channel->is_open());
  EXPECT_TRUE(channel->has_room()) << "or nobody would find out with a push";
}

TEST_F(Channels, that_are_cut_off_deliver_what_is_queued_and_tell_where_to_resume) {
  start();
  Client client(port());
  const auto channel = open_events(client);
  channel->push(message("6.1", "last"));
  channel->cut_off();
  EXPECT_FALSE(channel->push(message("6.2", "x")));
  EXPECT_EQ(client.rest(), "id: 6.1\ndata: last\n\nevent: resume\ndata: 6.1\n\n");
}

TEST_F(Channels, that_are_ended_deliver_nothing_more_and_tell_why) {
  options.write_timeout = hang_limit;
  start();
  Client client(port(), 4096);
  const auto channel = open_events(client);
  push_until_refused(*channel, client);
  channel->end("UNAUTHORIZED", "The key was revoked.");
  EXPECT_FALSE(channel->is_open());
  EXPECT_FALSE(channel->push(message("6.2", "x")));
  EXPECT_TRUE(client.rest().ends_with(
      "\n\nevent: end\ndata: {\"code\":\"UNAUTHORIZED\",\"detail\":\"The key was revoked.\"}\n\n"));

  Client other(port());
  const auto socket = open_websocket(other);
  socket->end("UNAUTHORIZED", "The key was revoked.");
  EXPECT_EQ(read_frame(other), std::pair(0x88, std::string("\x03\xf0UNAUTHORIZED: The key was revoked.")));
}

TEST_F(Channels, of_web_sockets_name_a_position_alone) {
  start();
  Client client(port());
  const auto channel = open_websocket(client);
  channel->push(message("6.1", ""));
  EXPECT_EQ(read_frame(client), std::pair(0x81, std::string("{\"position\":\"6.1\"}")));
}

TEST_F(Channels, cut_off_a_client_that_takes_nothing) {
  options.channel_bytes_max = 1'000'000;
  options.write_timeout = 60ms;
  start();
  Client client(port(), 4096);
  const auto channel = open_events(client);
  push_until_refused(*channel, client);
  EXPECT_TRUE(eventually([&] { return server_->counts().open == 0; }));
}

TEST_F(Channels, take_one_message_however_large) {
  options.channel_bytes_max = 1000;
  start();
  Client client(port());
  const auto channel = open_events(client);
  EXPECT_TRUE(channel->push(message("1", std::string(1 << 20, 'x'))));
  EXPECT_EQ(client.until("\n\n").size(), std::string_view("id: 1\ndata: \n\n").size() + (1 << 20));
}

TEST_F(Channels, are_not_opened_for_a_head) {
  start();
  Client client(port());
  client.send("HEAD /events HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_EQ(read_head(client).headers.at("content-type"), "text/event-stream");
  EXPECT_EQ(client.rest(), "");
  EXPECT_EQ(channel_, nullptr);
}

TEST_F(Channels, end_when_whoever_should_take_them_throws) {
  handler.handling = [](Request, Responder respond) {
    respond({.stream = [](std::shared_ptr<Channel>) { throw std::runtime_error("no"); }});
  };
  start();
  Client client(port());
  client.send(get("/"));
  EXPECT_EQ(read_head(client).status, 200);
  EXPECT_EQ(client.rest(), "");
}

TEST_F(Channels, are_web_sockets_for_those_who_ask) {
  start();
  Client client(port());
  const auto channel = open_websocket(client);
  EXPECT_TRUE(websocket_);
  EXPECT_EQ(websocket_head_.status, 101);
  EXPECT_EQ(websocket_head_.headers.at("upgrade"), "websocket");
  EXPECT_EQ(websocket_head_.headers.at("connection"), "Upgrade");
  EXPECT_EQ(websocket_head_.headers.at("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_FALSE(websocket_head_.headers.contains("sec-websocket-extensions"));
  const std::string longer(300, 'y');
  channel->push(message("1", "{}"));
  channel->push(message("2", longer));
  EXPECT_EQ(read_frame(client), std::pair(0x81, std::string("{}")));
  EXPECT_EQ(read_frame(client), std::pair(0x81, longer));
}

TEST_F(Channels, of_web_sockets_ping_and_answer_pings) {
  options.channel_heartbeat = 40ms;
  start();
  Client client(port());
  const auto channel = open_websocket(client);
  EXPECT_EQ(read_frame(client), std::pair(0x89, std::string()));
  client.send(masked(0x81, "ignored") + masked(0x89, "echo"));
  auto frame = read_frame(client);
  while (frame.first == 0x89) frame = read_frame(client);
  EXPECT_EQ(frame, std::pair(0x8a, std::string("echo")));
}

TEST_F(Channels, of_web_sockets_end_when_the_client_says_so) {
  start();
  Client client(port());
  const auto channel = open_websocket(client);
  client.send(masked(0x88, "\x03\xe8"));
  EXPECT_EQ(read_frame(client), std::pair(0x88, std::string("\x03\xe8")));
  EXPECT_EQ(client.rest(), "");
  EXPECT_TRUE(eventually([&] { return !channel->is_open(); }));
}

TEST_F(Channels, of_web_sockets_refuse_large_messages_and_wrong_frames) {
  start();
  {
    Client client(port());
    const auto channel = open_websocket(client);
    client.send(std::string("\x81\xfe\x10\x01mask", 8));
    EXPECT_EQ(read_frame(client), std::pair(0x88, std::string("\x03\xf1")));
  }
  Client client(port());
  const auto channel = open_websocket(client);
  client.send("\x81\x02hi");
  EXPECT_EQ(read_frame(client), std::pair(0x88, std::string("\x03\xea")));
}

TEST_F(Channels, of_web_sockets_tell_a_client_that_is_too_slow) {
  options.channel_bytes_max = 1'000'000;
  start();
  Client client(port(), 4096);
  const auto channel = open_websocket(client);
  push_until_refused(*channel, client);
  int delivered = 0;
  auto frame = read_frame(client);
  for (; frame.first == 0x81; frame = read_frame(client)) ++delivered;
  EXPECT_EQ(frame, std::pair(0x88, "\x03\xf5too slow; resume after " + std::to_string(delivered - 1)));
}

TEST_F(Channels, of_web_sockets_are_refused_to_foreign_pages) {
  start();
  EXPECT_EQ(ask(upgrade("Origin: http://evil.example\r\n")).body, "ORIGIN_NOT_ALLOWED");
  Client client(port());
  client.send(upgrade("Origin: http://here\r\n"));
  EXPECT_EQ(read_head(client).status, 101);
}

TEST_F(Channels, of_web_sockets_need_a_version_and_a_key_that_are_known) {
  start();
  const auto old = ask(get("/", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n"));
  EXPECT_EQ(old.status, 426);
  EXPECT_EQ(old.headers.at("sec-websocket-version"), "13");
  EXPECT_EQ(ask(get("/", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n")).status, 400);
}

TEST_F(Channels, are_a_plain_answer_where_the_handler_gives_one) {
  handler.handling = [](Request, Responder respond) { respond({.status = 404, .body = "none"}); };
  start();
  Client client(port());
  client.send(upgrade());
  EXPECT_EQ(read_reply(client).body, "none");
  become_channels();
  const auto channel = open_events(client);
  EXPECT_EQ(events_head_.headers.at("content-type"), "text/event-stream") << "nobody asked for a WebSocket this time";
}

TEST_F(Channels, are_told_to_resume_when_the_server_stops) {
  start();
  Client events(port()), websocket(port());
  const auto one = open_events(events);
  const auto two = open_websocket(websocket);
  one->push(message("41", "x"));
  two->push(message("42", "x"));
  EXPECT_EQ(events.until("\n\n"), "id: 41\ndata: x\n\n");
  EXPECT_EQ(read_frame(websocket).second, "x");
  std::jthread stopping([&] { server_->stop(hang_limit); });
  EXPECT_EQ(events.rest(), "event: resume\ndata: 41\n\n");
  EXPECT_EQ(read_frame(websocket), std::pair(0x88, std::string("\x03\xf4stopping; resume after 42")));
  events.close();
  websocket.close();
  stopping.join();
  EXPECT_FALSE(one->push(message("43", "x")));
}

TEST_F(Channels, are_told_to_resume_even_when_there_is_no_grace) {
  start();
  Client client(port());
  const auto channel = open_events(client);
  server_.reset();
  EXPECT_EQ(client.rest(), "event: resume\ndata: \n\n");
  EXPECT_FALSE(channel->is_open());
}

}  // namespace
}  // namespace pawl::http
