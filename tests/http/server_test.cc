#include <fcntl.h>
#include <sys/resource.h>

#include <random>
#include <set>
#include <vector>

#include "http/client.h"

namespace pawl::http {
namespace {

class Requests : public ServerTest {};

TEST_F(Requests, are_answered_with_the_headers_that_every_answer_has) {
  start();
  const auto reply = ask(get("/runs?limit=3"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "/runs|limit=3|");
  EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  EXPECT_EQ(reply.headers.at("server"), "pawl");
  EXPECT_EQ(reply.headers.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(reply.headers.at("date").size(), std::string_view("Sun, 06 Nov 1994 08:49:37 GMT").size());
  EXPECT_TRUE(reply.headers.at("date").ends_with(" GMT"));
  EXPECT_FALSE(reply.headers.contains("connection"));
}

TEST_F(Requests, have_an_id_which_their_answer_says) {
  std::vector<std::string> ids;
  handler.handling = [&](Request request, Responder respond) {
    ids.push_back(request.id);
    respond({});
  };
  start();
  Client client(port());
  const auto with_id = [](std::string_view id) {
    return "GET / HTTP/1.1\r\nHost: h\r\nX-Request-Id: " + std::string(id) + "\r\n\r\n";
  };
  const std::string longest(128, 'a');
  for (const std::string& fit : {std::string("job:7/a_b-c.d+e=f@G"), longest}) {
    client.send(with_id(fit));
    EXPECT_EQ(read_reply(client).headers.at("x-request-id"), fit);
    EXPECT_EQ(ids.back(), fit);
  }
  for (const std::string& unfit :
       {std::string(), longest + "a", std::string("a b"), std::string("a\"b"), std::string("\xc3\xbc")}) {
    client.send(with_id(unfit));
    const std::string made = read_reply(client).headers.at("x-request-id");
    EXPECT_EQ(made.size(), 16u);
    EXPECT_EQ(made.find_first_not_of("0123456789abcdef"), made.npos) << made;
    EXPECT_EQ(ids.back(), made);
  }
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size()) << "each another one";
  Client broken(port());
  broken.send("NONSENSE\r\n\r\n");
  EXPECT_EQ(read_reply(broken).headers.at("x-request-id").size(), 16u);
}

TEST_F(Requests, share_a_connection) {
  start();
  Client client(port());
  for (int i = 0; i < 3; ++i) {
    client.send(post("/" + std::to_string(i), "body"));
    EXPECT_EQ(read_reply(client).body, "/" + std::to_string(i) + "||body");
  }
  EXPECT_EQ(server_->counts().accepted, 1u);
  EXPECT_EQ(server_->counts().requests, 3u);
}

TEST_F(Requests, that_are_pipelined_are_answered_in_order) {
  std::jthread late;
  handler.handling = [&](Request request, Responder respond) {
    // Every other one is answered later, by another thread: the one after it must wait.
    if (request.path == "/1" || request.path == "/3") {
      if (late.joinable()) late.join();
      late = std::jthread([path = request.path, respond = std::move(respond)]() mutable { respond({.body = path}); });
    } else {
      respond({.body = request.path});
    }
  };
  start();
  Client client(port());
  client.send(get("/1") + get("/2") + post("/3", "x") + "\r\n" + get("/4"));
  for (const char* path : {"/1", "/2", "/3", "/4"}) EXPECT_EQ(read_reply(client).body, path);
  late.join();
}

TEST_F(Requests, may_come_byte_by_byte) {
  start();
  Client client(port());
  for (const char c : post("/slow?x=1", "abc")) client.send({&c, 1});
  EXPECT_EQ(read_reply(client).body, "/slow|x=1|abc");
}

TEST_F(Requests, reach_the_handler_whole) {
  Request seen;
  handler.handling = [&](Request request, Responder respond) {
    seen = std::move(request);
    respond({});
  };
  start();
  ask("PATCH /a%20b?c=%26 HTTP/1.1\r\nHost: here\r\nX-Thing:  One \r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_EQ(seen.method, Method::patch);
  EXPECT_EQ(seen.path, "/a%20b");
  EXPECT_EQ(seen.query, "c=%26");
  EXPECT_EQ(seen.header("x-thing"), "One");
  EXPECT_EQ(seen.body, "hi");
  EXPECT_EQ(seen.peer, "127.0.0.1");
  EXPECT_FALSE(seen.wants_websocket);
}

TEST_F(Requests, of_every_method_are_known) {
  handler.handling = [](Request request, Responder respond) {
    respond({.body = std::to_string(static_cast<int>(request.method))});
  };
  start();
  const auto asked = [&](const char* method) {
    return ask(std::string(method) + " / HTTP/1.1\r\nHost: h\r\n\r\n").body;
  };
  EXPECT_EQ(asked("GET"), std::to_string(static_cast<int>(Method::get)));
  EXPECT_EQ(asked("PUT"), std::to_string(static_cast<int>(Method::put)));
  EXPECT_EQ(asked("DELETE"), std::to_string(static_cast<int>(Method::delete_)));
  EXPECT_EQ(asked("OPTIONS"), std::to_string(static_cast<int>(Method::options)));
  EXPECT_EQ(asked("BREW"), "METHOD_UNKNOWN");
}

TEST_F(Requests, for_a_head_get_no_body) {
  start();
  Client client(port());
  client.send("HEAD /x HTTP/1.1\r\nHost: here\r\n\r\n" + get("/y"));
  const auto head = read_head(client);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "4");
  EXPECT_EQ(read_reply(client).body, "/y||") << "what follows is the next answer";
}

TEST_F(Requests, in_chunks_are_put_together_and_their_trailers_ignored) {
  bool trailed = false;
  handler.handling = [&](Request request, Responder respond) {
    trailed = !request.header("x-late").empty();
    respond({.body = request.body});
  };
  start();
  Client client(port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.send("2;why=not\r\nde\r\n0\r\nX-Late: yes\r\n\r\n");
  EXPECT_EQ(read_reply(client).body, "abcde");
  EXPECT_FALSE(trailed);
  client.send(get("/"));
  EXPECT_EQ(read_reply(client).status, 200);
}

TEST_F(Requests, in_chunks_may_come_byte_by_byte) {
  start();
  Client client(port());
  for (const std::string_view chunks : {"0\r\n\r\n", "3\r\nabc\r\n2;x\r\nde\r\n0\r\nA: b\r\n\r\n"}) {
    client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const char c : chunks) {
      std::this_thread::sleep_for(1ms);  // so that each one is read alone
      client.send({&c, 1});
    }
    EXPECT_EQ(read_reply(client).body, chunks.starts_with('0') ? "/||" : "/||abcde");
  }
}

TEST_F(Requests, that_are_noise_harm_nobody) {
  options.header_timeout = options.body_timeout = 2s;
  start();
  const std::string good = post("/a?b=c", "0123456789") +
                           "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  constexpr unsigned seed = 20240229;
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) {
    auto noise = good;
    for (auto changes = 1 + random() % 4; changes > 0; --changes) {
      const auto at = random() % noise.size();
      if (random() % 2)
        noise[at] = static_cast<char>(random());
      else
        noise.erase(at, 1 + random() % 8);
    }
    Client client(port());
    client.send(noise);
    client.shut_sending();
    client.rest();
  }
  EXPECT_EQ(ask(get("/fine")).body, "/fine||");
  EXPECT_TRUE(eventually([&] { return server_->counts().open == 0; }));
}

TEST_F(Requests, that_expect_a_go_ahead_get_it) {
  start();
  Client client(port());
  client.send("POST /e HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_EQ(read_reply(client).body, "/e||ok");
}

TEST_F(Requests, that_expect_something_else_are_refused) {
  start();
  EXPECT_EQ(ask(get("/", "Expect: miracles\r\n")).status, 417);
}

TEST_F(Requests, of_http_1_0_close_unless_they_ask_not_to) {
  start();
  Client closing(port());
  closing.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(read_reply(closing).headers.at("connection"), "close");
  EXPECT_EQ(closing.rest(), "");

  Client staying(port());
  staying.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(read_reply(staying).headers.at("connection"), "keep-alive");
  staying.send("GET /again HTTP/1.0\r\n\r\n");
  EXPECT_EQ(read_reply(staying).body, "/again||");
}

TEST_F(Requests, may_ask_for_the_end_of_the_connection) {
  start();
  Client client(port());
  client.send(get("/", "Connection: close\r\n"));
  EXPECT_EQ(read_reply(client).headers.at("connection"), "close");
  EXPECT_EQ(client.rest(), "");
}

class Malformed : public ServerTest, public testing::WithParamInterface<const char*> {};
TEST_P(Malformed, requests_are_refused_and_the_connection_closed) {
  start();
  Client client(port());
  client.send(GetParam());
  const auto reply = read_reply(client);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body, "REQUEST_MALFORMED");
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_EQ(client.rest(), "");
}
INSTANTIATE_TEST_SUITE_P(
    All, Malformed,
    testing::Values("nonsense\r\n\r\n", "\x16\x03\x01\x02\x01", "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer 1\r\nAuthorization: Bearer 2\r\n\r\n",
                    "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: 1\r\nIdempotency-Key: 2\r\n\r\n",
                    "GET http:// HTTP/1.1\r\nHost: a\r\n\r\n", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
                    "GET http://me@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a\r\nX: one\r\n two\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost: a\r\nX: one\r\n\ttwo\r\nY: z\r\n\r\n",
                    "GET / HTTP/1.1\r\nHost:\r\n a\r\n\r\n", "GET / HTTP/1.1\r\n X: y\r\nHost: a\r\n\r\n",
                    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
                    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
                    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
                    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                    "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"));

class Answers : public ServerTest {};

TEST_F(Answers, carry_their_own_headers_and_nothing_that_was_smuggled_in) {
  handler.handling = [](Request, Responder respond) {
    respond({.status = 201,
             .content_type = "text/plain\r\nX-Evil: 1",
             .body = "made",
             .headers = {{"Location", "/runs/1\r\nSet-Cookie: a=b\n\r\n<html>"}, {"X-A\r\nX-B", "c"}}});
  };
  start();
  const auto reply = ask(get("/"));
  EXPECT_EQ(reply.status, 201);
  EXPECT_EQ(reply.headers.at("location"), "/runs/1Set-Cookie: a=b<html>");
  EXPECT_FALSE(reply.headers.contains("set-cookie"));
  EXPECT_FALSE(reply.headers.contains("x-evil"));
  EXPECT_FALSE(reply.headers.contains("x-b"));
  EXPECT_EQ(reply.body, "made");
}

TEST_F(Answers, without_content_have_no_length) {
  handler.handling = [](Request, Responder respond) {
    respond({.status = 204, .content_type = "", .body = "ignored"});
  };
  start();
  Client client(port());
  client.send(get("/") + get("/"));
  for (int i = 0; i < 2; ++i) {
    const auto reply = read_head(client);
    EXPECT_EQ(reply.status, 204);
    EXPECT_FALSE(reply.headers.contains("content-length"));
    EXPECT_FALSE(reply.headers.contains("content-type"));
  }
}

TEST_F(Answers, are_kept_by_nobody_unless_they_say_so) {
  handler.handling = [](Request request, Responder respond) {
    Response response{.body = "x"};
    if (request.path == "/page") response.headers.emplace_back("Cache-Control", "max-age=60");
    respond(std::move(response));
  };
  start();
  EXPECT_EQ(ask(get("/")).headers.at("cache-control"), "no-store");
  EXPECT_EQ(ask("nonsense\r\n\r\n").headers.at("cache-control"), "no-store");
  EXPECT_EQ(ask(get("/page")).headers.at("cache-control"), "max-age=60");
}

TEST_F(Answers, may_be_large) {
  const std::string large(20 << 20, 'x');
  handler.handling = [&](Request, Responder respond) { respond({.body = large}); };
  start();
  const auto reply = ask(get("/"));
  EXPECT_EQ(reply.body.size(), large.size());
  EXPECT_TRUE(reply.body == large);
}

TEST_F(Answers, may_come_from_another_thread) {
  options.threads = 2;
  std::mutex mutex;
  std::vector<std::pair<std::string, Responder>> waiting;
  std::atomic<bool> done = false;
  handler.handling = [&](Request request, Responder respond) {
    std::lock_guard lock(mutex);
    waiting.emplace_back(request.path, std::move(respond));
  };
  start();
  std::jthread answering([&] {
    while (!done) {
      std::vector<std::pair<std::string, Responder>> taken;
      {
        std::lock_guard lock(mutex);
        taken.swap(waiting);
      }
      for (auto& [path, respond] : taken) respond({.body = path});
      std::this_thread::yield();
    }
  });
  std::vector<std::jthread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      Client client(port());
      for (int i = 0; i < 100; ++i) {
        const auto path = "/" + std::to_string(c) + "/" + std::to_string(i);
        client.send(get(path));
        ASSERT_EQ(read_reply(client).body, path);
      }
    });
  }
  for (auto& client : clients) client.join();
  done = true;
  answering.join();
  EXPECT_EQ(server_->counts().requests, 400u);
}

TEST_F(Answers, count_once) {
  handler.handling = [](Request request, Responder respond) {
    respond({.body = request.path});
    respond({.body = "again"});
  };
  start();
  Client client(port());
  client.send(get("/1") + get("/2"));
  EXPECT_EQ(read_reply(client).body, "/1");
  EXPECT_EQ(read_reply(client).body, "/2");
}

TEST_F(Answers, to_a_client_that_has_gone_go_nowhere) {
  std::optional<Responder> kept;
  std::atomic<bool> asked = false;
  handler.handling = [&](Request, Responder respond) {
    kept = std::move(respond);
    asked = true;
  };
  start();
  {
    Client client(port());
    client.send(get("/"));
    ASSERT_TRUE(eventually([&] { return asked.load(); }));
  }
  (*kept)({.body = std::string(1 << 20, 'x')});
  EXPECT_TRUE(eventually([&] { return server_->counts().open == 0; }));
}

TEST_F(Answers, may_come_after_the_server_is_gone) {
  std::vector<Responder> kept;
  std::atomic<int> asked = 0;
  handler.handling = [&](Request, Responder respond) {
    kept.push_back(std::move(respond));
    ++asked;
  };
  start();
  Client one(port()), two(port());
  one.send(get("/"));
  two.send(get("/"));
  ASSERT_TRUE(eventually([&] { return asked == 2; }));
  server_.reset();
  kept[0]({.body = "late"});
  kept.clear();
  EXPECT_EQ(one.rest(), "");
}

TEST_F(Answers, that_are_never_given_become_503) {
  handler.handling = [](Request, Responder) {};
  start();
  const auto reply = ask(get("/"));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, "NOT_ANSWERED");
}

TEST_F(Answers, are_500_when_the_handler_throws) {
  std::optional<Responder> kept;
  handler.handling = [&](Request request, Responder respond) {
    if (request.path == "/keep") kept = std::move(respond);
    if (request.path != "/fine") throw std::runtime_error("no");
    respond({.body = "fine"});
  };
  start();
  Client client(port());
  client.send(get("/"));
  EXPECT_EQ(read_reply(client).body, "INTERNAL");
  client.send(get("/keep"));
  EXPECT_EQ(read_reply(client).status, 500);
  handler.handling = [&](Request, Responder respond) {
    (*kept)({.body = "an answer to another question"});
    respond({.body = "fine"});
  };
  client.send(get("/fine"));
  EXPECT_EQ(read_reply(client).body, "fine");
}

class Origins : public ServerTest {};

TEST_F(Origins, that_are_foreign_are_refused) {
  start();
  for (const char* origin :
       {"https://evil.example", "null", "http://here.evil.example", "http://here:81", "here", "http", ""}) {
    const auto reply = ask(get("/", "Origin: " + std::string(origin) + "\r\n"));
    EXPECT_EQ(reply.status, 403) << origin;
    EXPECT_EQ(reply.body, "ORIGIN_NOT_ALLOWED");
  }
  EXPECT_EQ(server_->counts().requests, 0u);
}

TEST_F(Origins, that_are_the_servers_own_pass) {
  start();
  for (const char* origin : {"http://here", "https://here", "http://HERE", "http://here:80", "https://here:443"})
    EXPECT_EQ(ask(get("/", "Origin: " + std::string(origin) + "\r\n")).status, 200) << origin;
}

TEST_F(Origins, that_are_listed_pass) {
  options.origins = {"https://ops.example"};
  start();
  EXPECT_EQ(ask(get("/", "Origin: https://ops.example\r\n")).status, 200);
  EXPECT_EQ(ask(get("/", "Origin: http://ops.example\r\n")).status, 403);
}

TEST_F(Origins, that_pass_may_read_the_answer_and_others_are_not_told_so) {
  options.origins = {"https://ops.example"};
  start();
  const auto reply = ask(get("/", "Origin: https://ops.example\r\n"));
  EXPECT_EQ(reply.headers.at("access-control-allow-origin"), "https://ops.example");
  EXPECT_EQ(reply.headers.at("vary"), "Origin");
  Client client(port());
  client.send(get("/", "Origin: https://ops.example\r\n") + get("/"));
  EXPECT_TRUE(read_reply(client).headers.contains("access-control-allow-origin"));
  EXPECT_FALSE(read_reply(client).headers.contains("access-control-allow-origin")) << "of the request before";
  EXPECT_FALSE(ask(get("/", "Origin: https://evil.example\r\n")).headers.contains("access-control-allow-origin"));
}

TEST_F(Origins, are_judged_before_the_body_is_read) {
  start();
  Client client(port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nOrigin: http://evil\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(read_reply(client).status, 403);
}

class Hosts : public ServerTest {
 protected:
  Reply ask_as(const std::string& host, const std::string& target = "/") {
    return ask("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  }
};

TEST_F(Hosts, of_a_server_on_loopback_are_this_machine_and_those_that_are_listed) {
  options.hosts = {"pawl.example"};
  start();
  for (const char* host : {"localhost", "localhost:7295", "LOCALHOST", "127.0.0.1", "127.0.0.1:1", "[::1]",
                           "[::1]:7295", "pawl.example", "pawl.example:443"})
    EXPECT_EQ(ask_as(host).status, 200) << host;
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "", ":80",
                           "[::2]", "::1", "localhost:80:80", "pawl.example."}) {
    const auto reply = ask_as(host);
    EXPECT_EQ(reply.status, 421) << host;
    EXPECT_EQ(reply.body, "HOST_NOT_ALLOWED") << host;
  }
}

TEST_F(Hosts, of_other_addresses_are_any_unless_some_are_listed) {
  options.address = "0.0.0.0";
  options.hosts = {};
  start();
  EXPECT_EQ(ask_as("pawl.example").status, 200);
  server_.reset();
  options.hosts = {"pawl.example"};
  start();
  EXPECT_EQ(ask_as("pawl.example").status, 200);
  EXPECT_EQ(ask_as("localhost").status, 421);
}

TEST_F(Hosts, in_the_target_count_as_those_of_the_header_and_must_agree_with_it) {
  options.hosts = {"pawl.example"};
  start();
  EXPECT_EQ(ask_as("pawl.example", "http://pawl.example/x?y=1").body, "/x|y=1|");
  EXPECT_EQ(ask_as("localhost:1", "HTTPS://LOCALHOST:1/x").body, "/x||");
  EXPECT_EQ(ask_as("pawl.example:80", "http://pawl.example/x").body, "/x||");
  EXPECT_EQ(ask_as("evil.example", "http://evil.example/x").status, 421);
  EXPECT_EQ(ask_as("evil.example", "http://pawl.example/x").status, 400);
  EXPECT_EQ(ask_as("pawl.example", "http://evil.example/x").status, 400);
  EXPECT_EQ(ask_as("pawl.example", "http://pawl.example:81/x").status, 400);
  EXPECT_EQ(ask_as("pawl.example", "http://pawl.example").body, "/||");
  EXPECT_EQ(ask_as("pawl.example", "http://pawl.example?y").body, "/|y|");
  EXPECT_EQ(ask_as("pawl.example", "?y").status, 400);
  EXPECT_EQ(ask_as("pawl.example", "/http://evil.example/").body, "/http://evil.example/||");
  EXPECT_EQ(ask("GET http://pawl.example/ HTTP/1.1\r\n\r\n").status, 400) << "a Host header is needed all the same";
}

TEST_F(Hosts, in_the_target_are_judged_in_http_1_0_too) {
  options.hosts = {"pawl.example"};
  start();
  EXPECT_EQ(ask("GET http://evil.example/ HTTP/1.0\r\n\r\n").status, 421);
  EXPECT_EQ(ask("GET http://evil.example/ HTTP/1.0\r\nHost: pawl.example\r\n\r\n").status, 400);
  EXPECT_EQ(ask("GET http://pawl.example/ HTTP/1.0\r\n\r\n").status, 200);
  EXPECT_EQ(ask("GET / HTTP/1.0\r\n\r\n").status, 200);
}

class Listening : public ServerTest {};

TEST_F(Listening, fails_with_the_address_and_the_reason) {
  start();
  options.port = port();
  try {
    Server second(options, handler);
    FAIL() << "two servers on one port";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot listen on 127.0.0.1:" + std::to_string(port()) + ": Address already in use");
  }
}

TEST_F(Listening, goes_on_after_the_process_ran_out_of_descriptors) {
  start();
  ASSERT_EQ(ask(get("/")).status, 200);
  ASSERT_TRUE(eventually([&] { return server_->counts().open == 0; }));
  Client client(0);
  rlimit before{};
  ASSERT_EQ(0, ::getrlimit(RLIMIT_NOFILE, &before));
  rlimit none = before;
  const int next = ::dup(client.socket());
  ::close(next);
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &none));
  client.connect(port());
  client.send(get("/waited"));
  EXPECT_FALSE(client.hears_within(100ms));
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &before));
  EXPECT_EQ(read_reply(client).body, "/waited||");
}

}  // namespace
}  // namespace pawl::http
