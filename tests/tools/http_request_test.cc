#include <fmt/format.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <cstdlib>

#include "tools/http_server.h"
#include "tools/try_tool.h"

namespace pawl {
namespace {

using boost::json::object;

std::unique_ptr<Tool> tool_allowing(std::string_view entry, std::size_t body_bytes_max = step_output_bytes_max) {
  ToolLimits limits{.http_body_bytes_max = body_bytes_max};
  if (!entry.empty()) limits.http_allow.push_back(parse_http_allow(entry).value());
  return make_http_request(limits);
}

class HttpRequestTool : public testing::Test {
 protected:
  ToolResult send(object input, std::stop_token stop = {}) {
    return try_tool(*tool_, boost::json::serialize(input), std::move(stop));
  }
  // What the tool makes of this answer.
  ToolResult given(std::string answer) {
    HttpServer server([&](const SeenRequest&) { return answer; });
    return send({{"url", server.url()}});
  }

  std::unique_ptr<Tool> tool_ = tool_allowing("127.0.0.1");
};

TEST_F(HttpRequestTool, knows_which_failures_had_no_effect_for_sure) {
  EXPECT_TRUE(failure_of(given(http_reply(422))).is_harmless);
  EXPECT_TRUE(failure_of(given(http_reply(429))).is_harmless);
  EXPECT_FALSE(failure_of(given(http_reply(500))).is_harmless);
  EXPECT_TRUE(failure_of(send({{"url", "http://127.0.0.1:1"}})).is_harmless);  // nobody listens there
  EXPECT_TRUE(failure_of(send({{"url", "http://10.0.0.1"}})).is_harmless);     // may not be reached
  EXPECT_TRUE(failure_of(send({{"url", "nonsense"}})).is_harmless);
  HttpServer silent([](const SeenRequest&) { return std::nullopt; });
  // On a busy machine the time may be over before the request was sent, and then nothing can have happened.
  for (int timeout_ms = 100; silent.seen().empty(); timeout_ms *= 2) {
    const auto timeout = fmt::format("{}ms", timeout_ms);
    const Failed failed = failure_of(send({{"url", silent.url()}, {"method", "POST"}, {"timeout", timeout}}));
    EXPECT_TRUE(silent.seen().empty() || !failed.is_harmless);
  }
  HttpServer hanging_up([](const SeenRequest&) { return std::string(); });
  EXPECT_FALSE(failure_of(send({{"url", hanging_up.url()}, {"method", "POST"}})).is_harmless);
}

TEST_F(HttpRequestTool, gives_status_headers_and_text) {
  EXPECT_EQ(
      output_of(given(http_reply(200, "hello", "X-Greeting: Hi \r\nContent-Type: text/plain\r\n"))),
      R"({"status":200,"headers":{"content-length":"5","x-greeting":"Hi","content-type":"text/plain"},"body":"hello"})");
}

TEST_F(HttpRequestTool, parses_a_json_body) {
  for (const char* type : {"application/json", "Application/JSON ; charset=utf-8", "application/problem+json"}) {
    const auto output =
        json_output_of(given(http_reply(200, R"({"a": [1]})", fmt::format("Content-Type: {}\r\n", type))));
    EXPECT_EQ(output.at("body"), Json(object{{"a", {1}}})) << type;
  }
}

TEST_F(HttpRequestTool, gives_what_claims_to_be_json_and_is_not_as_text) {
  const auto output = json_output_of(given(http_reply(200, "<html>", "Content-Type: application/json\r\n")));
  EXPECT_EQ(output.at("body"), "<html>");
}

TEST_F(HttpRequestTool, replaces_what_is_not_utf8) {
  EXPECT_EQ(json_output_of(given(http_reply(200, "a\xff"))).at("body"), "a\xEF\xBF\xBD");
}

TEST_F(HttpRequestTool, joins_headers_that_come_several_times) {
  const auto output = json_output_of(given(http_reply(200, "", "Via: a\r\nVIA: b\r\n")));
  EXPECT_EQ(output.at("headers").at("via"), "a, b");
}

TEST_F(HttpRequestTool, sends_method_headers_and_a_json_body) {
  HttpServer server([](const SeenRequest&) { return http_reply(201); });
  output_of(send({{"url", server.url("/things?x=1")},
                  {"method", "post"},
                  {"headers", {{"X-Colour", "green"}, {"X-Empty", ""}}},
                  {"body", {{"a", 1}}}}));
  const auto seen = server.seen().at(0);
  EXPECT_EQ(seen.method, "POST");
  EXPECT_EQ(seen.target, "/things?x=1");
  EXPECT_EQ(seen.body, R"({"a":1})");
  EXPECT_TRUE(seen.has("Content-Type: application/json\r\n"));
  EXPECT_TRUE(seen.has("X-Colour: green\r\n"));
  EXPECT_TRUE(seen.has("X-Empty:\r\n"));
  EXPECT_FALSE(seen.has("Expect:"));
}

TEST_F(HttpRequestTool, sends_text_as_it_is_and_keeps_a_given_content_type) {
  HttpServer server([](const SeenRequest&) { return http_reply(200); });
  output_of(send({{"url", server.url()}, {"method", "PUT"}, {"body", "a=1"}}));
  output_of(
      send({{"url", server.url()}, {"method", "PATCH"}, {"body", "a=1"}, {"headers", {{"content-type", "x/y"}}}}));
  const auto seen = server.seen();
  EXPECT_EQ(seen.at(0).body, "a=1");
  EXPECT_TRUE(seen.at(0).has("Content-Type: text/plain; charset=utf-8\r\n"));
  EXPECT_TRUE(seen.at(1).has("content-type: x/y\r\n"));
  EXPECT_FALSE(seen.at(1).has("text/plain"));
}

TEST_F(HttpRequestTool, sends_every_method_it_knows) {
  HttpServer server([](const SeenRequest&) { return http_reply(200); });
  const std::vector<std::string> methods{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"};
  for (const auto& method : methods) output_of(send({{"url", server.url()}, {"method", method}}));
  const auto seen = server.seen();
  ASSERT_EQ(seen.size(), methods.size());
  for (std::size_t i = 0; i < methods.size(); ++i) {
    EXPECT_EQ(seen[i].method, methods[i]);
    EXPECT_FALSE(seen[i].has("Content-Type")) << methods[i];
  }
}

TEST_F(HttpRequestTool, sends_the_idempotency_key_with_every_write) {
  HttpServer server([](const SeenRequest&) { return http_reply(200); });
  for (const char* method : {"GET", "HEAD", "OPTIONS"}) output_of(send({{"url", server.url()}, {"method", method}}));
  for (const auto& seen : server.seen()) EXPECT_FALSE(seen.has("Idempotency-Key"));
  output_of(send({{"url", server.url()}, {"method", "DELETE"}}));
  EXPECT_TRUE(server.seen().at(3).has("Idempotency-Key: run:one\r\n"));
  output_of(send({{"url", server.url()}, {"method", "POST"}, {"headers", {{"idempotency-key", "mine"}}}}));
  EXPECT_TRUE(server.seen().at(4).has("idempotency-key: mine\r\n"));
  EXPECT_FALSE(server.seen().at(4).has("run:one"));
}

TEST_F(HttpRequestTool, takes_a_redirect_for_an_answer_unless_told_to_follow) {
  const auto output = json_output_of(given(http_reply(302, "", "Location: /elsewhere\r\n")));
  EXPECT_EQ(output.at("status"), 302);
  EXPECT_EQ(output.at("headers").at("location"), "/elsewhere");
}

TEST_F(HttpRequestTool, follows_redirects_when_told_to) {
  HttpServer server([](const SeenRequest& request) {
    return request.target == "/end" ? http_reply(200, "there") : http_reply(302, "", "Location: /end\r\n");
  });
  const auto output = json_output_of(send({{"url", server.url()}, {"follow_redirects", true}}));
  EXPECT_EQ(output.at("body"), "there");
}

TEST_F(HttpRequestTool, does_not_follow_a_redirect_with_a_write) {
  HttpServer server([](const SeenRequest&) { return http_reply(307, "", "Location: /end\r\n"); });
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE", "post"}) {
    expect_failure(send({{"url", server.url()}, {"method", method}, {"follow_redirects", true}}),
                   "TOOL_INVALID_ARGUMENTS", "follow_redirects");
    EXPECT_EQ(json_output_of(send({{"url", server.url()}, {"method", method}})).at("status"), 307);
  }
  for (const auto& seen : server.seen()) EXPECT_EQ(seen.target, "/");
}

TEST_F(HttpRequestTool, sends_the_one_spelling_of_a_url) {
  HttpServer server([](const SeenRequest&) { return http_reply(200); });
  output_of(send({{"url", server.url("/public/../admin/%7ea?b=c d#e")}}));
  EXPECT_EQ(server.seen().at(0).target, "/admin/~a?b=c%20d");
  expect_failure(send({{"url", server.url("/public/..%2fadmin")}}), "TOOL_INVALID_ARGUMENTS", "url");
  expect_failure(send({{"url", server.url("/", "ada:swordfish@127.0.0.1")}}), "TOOL_INVALID_ARGUMENTS",
                 "Authorization");
  expect_failure(send({{"url", server.url()}, {"headers", object{{"host", "other.example"}}}}),
                 "TOOL_INVALID_ARGUMENTS", "host");
  EXPECT_EQ(server.seen().size(), 1u);
}

TEST_F(HttpRequestTool, tells_another_origin_nothing_of_who_asks) {
  HttpServer other([](const SeenRequest&) { return http_reply(200); });
  HttpServer server([&](const SeenRequest&) { return http_reply(307, "", "Location: " + other.url() + "\r\n"); });
  const object headers{{"Authorization", "Bearer s"}, {"X-Api-Key", "s"}, {"Cookie", "s"}, {"Accept", "text/plain"}};
  output_of(send({{"url", server.url()}, {"follow_redirects", true}, {"headers", headers}}));
  const auto seen = other.seen().at(0);
  for (const char* name : {"Authorization", "X-Api-Key", "Cookie"}) EXPECT_FALSE(seen.has(name)) << name;
  EXPECT_TRUE(seen.has("Accept: text/plain\r\n"));
}

TEST_F(HttpRequestTool, gives_up_on_redirects_that_do_not_end) {
  HttpServer server([](const SeenRequest&) { return http_reply(302, "", "Location: /again\r\n"); });
  expect_failure(send({{"url", server.url()}, {"follow_redirects", true}}), "TOOL_INVALID_ARGUMENTS", "redirects");
  EXPECT_EQ(server.seen().size(), 6u);
}

TEST_F(HttpRequestTool, does_not_follow_a_redirect_into_a_file) {
  HttpServer server([](const SeenRequest&) { return http_reply(302, "", "Location: file:///etc/passwd\r\n"); });
  expect_failure(send({{"url", server.url()}, {"follow_redirects", true}}), "TOOL_INVALID_ARGUMENTS", "url");
}

TEST_F(HttpRequestTool, refuses_private_addresses_unless_the_operator_allows_them) {
  std::atomic<int> reached = 0;
  HttpServer server([&](const SeenRequest&) { return ++reached, http_reply(200); });
  tool_ = tool_allowing("");
  for (const char* host : {"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0"})
    expect_failure(send({{"url", server.url("/", host)}}), "TOOL_DENIED", "may not be reached");
  for (const char* host : {"0x7f.1", "2130706433", "127.1", "0177.0.0.1"})
    expect_failure(send({{"url", server.url("/", host)}}), "TOOL_INVALID_ARGUMENTS", "four decimal numbers");
  expect_failure(send({{"url", "http://169.254.169.254/latest/meta-data/"}}), "TOOL_DENIED");
  EXPECT_EQ(reached, 0);
}

TEST_F(HttpRequestTool, checks_the_address_behind_every_redirect) {
  HttpServer inner([](const SeenRequest&) { return http_reply(200, "secret"); });
  HttpServer server(
      [&](const SeenRequest&) { return http_reply(302, "", "Location: " + inner.url("/", "127.0.0.2") + "\r\n"); });
  expect_failure(send({{"url", server.url()}, {"follow_redirects", true}}), "TOOL_DENIED", "127.0.0.2");
  EXPECT_TRUE(inner.seen().empty());
}

TEST_F(HttpRequestTool, reaches_a_server_that_the_operator_named) {
  HttpServer server([](const SeenRequest&) { return http_reply(200); });
  HttpServer other([](const SeenRequest&) { return http_reply(200); });
  tool_ = tool_allowing(fmt::format("localhost:{}", server.port()));
  output_of(send({{"url", server.url("/", "LOCALHOST")}}));
  expect_failure(send({{"url", other.url("/", "localhost")}}), "TOOL_DENIED");
  expect_failure(send({{"url", server.url("/", "127.0.0.1")}}), "TOOL_DENIED");
}

TEST_F(HttpRequestTool, heeds_no_proxy_from_the_environment) {
  HttpServer server([](const SeenRequest&) { return http_reply(200, "direct"); });
  ::setenv("http_proxy", "http://127.0.0.1:1/", 1);
  const auto output = json_output_of(send({{"url", server.url()}}));
  ::unsetenv("http_proxy");
  EXPECT_EQ(output.at("body"), "direct");
}

TEST_F(HttpRequestTool, tells_the_engine_what_may_be_tried_again) {
  const std::vector<std::pair<int, const char*>> codes{{400, "TOOL_INVALID_ARGUMENTS"}, {401, "TOOL_INVALID_ARGUMENTS"},
                                                       {404, "TOOL_INVALID_ARGUMENTS"}, {408, "TOOL_TIMEOUT"},
                                                       {409, "TOOL_INVALID_ARGUMENTS"}, {429, "TOOL_RATE_LIMITED"},
                                                       {500, "TOOL_DEPENDENCY_DOWN"},   {503, "TOOL_DEPENDENCY_DOWN"}};
  for (const auto& [status, code] : codes)
    expect_failure(given(http_reply(status, "no luck")), code, fmt::format("answered {}: no luck", status));
}

TEST_F(HttpRequestTool, keeps_the_url_out_of_messages_for_it_may_hold_secrets) {
  HttpServer server([](const SeenRequest&) { return http_reply(403); });
  const auto failed = failure_of(send({{"url", server.url("/path?token=swordfish")}}));
  EXPECT_EQ(failed.message, fmt::format("GET http://127.0.0.1:{} answered 403", server.port()));
}

TEST_F(HttpRequestTool, passes_on_how_long_the_server_wants_to_be_left_alone) {
  const auto after = [&](int status, std::string header) {
    return failure_of(given(http_reply(status, "", "Retry-After: " + header + "\r\n"))).retry_after;
  };
  EXPECT_EQ(after(429, "7"), std::chrono::seconds(7));
  EXPECT_EQ(after(503, "120"), std::chrono::minutes(2));
  // test_now is 2027-01-15 08:00:00 UTC.
  EXPECT_EQ(after(429, "Fri, 15 Jan 2027 08:01:30 GMT"), std::chrono::seconds(90));
  EXPECT_EQ(after(429, "Fri, 15 Jan 2027 07:00:00 GMT"), std::chrono::seconds(0));
  EXPECT_EQ(after(429, "99999999999999999999999"), std::chrono::hours(24));
  EXPECT_EQ(after(429, "soon"), std::nullopt);
}

TEST_F(HttpRequestTool, may_be_tried_again_when_nobody_listens) {
  expect_failure(send({{"url", "http://127.0.0.1:1/"}}), "TOOL_DEPENDENCY_DOWN", "http://127.0.0.1:1");
  expect_failure(send({{"url", "http://no-such-name.invalid/"}}), "TOOL_DEPENDENCY_DOWN", "no-such-name.invalid");
  expect_failure(given(""), "TOOL_DEPENDENCY_DOWN");
  expect_failure(given("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"), "TOOL_DEPENDENCY_DOWN");
}

TEST_F(HttpRequestTool, gives_up_when_the_answer_takes_too_long) {
  HttpServer server([](const SeenRequest&) { return std::nullopt; });
  expect_failure(send({{"url", server.url()}, {"timeout", "150ms"}}), "TOOL_TIMEOUT");
}

TEST_F(HttpRequestTool, counts_redirects_into_the_time_out) {
  HttpServer server([](const SeenRequest& request) -> std::optional<std::string> {
    if (request.target == "/slow") return std::nullopt;
    return http_reply(302, "", "Location: /slow\r\n");
  });
  expect_failure(send({{"url", server.url()}, {"timeout", "200ms"}, {"follow_redirects", true}}), "TOOL_TIMEOUT");
}

TEST_F(HttpRequestTool, ends_at_once_when_told_to_stop) {
  HttpServer server([](const SeenRequest&) { return std::nullopt; });
  std::stop_source stop;
  std::jthread stopper([&] {
    EXPECT_TRUE(eventually([&] { return !server.seen().empty(); }));
    stop.request_stop();
  });
  const Stopwatch watch;
  failure_of(send({{"url", server.url()}, {"timeout", "1h"}}, stop.get_token()));
  EXPECT_LT(watch.elapsed(), hang_limit);
}

TEST_F(HttpRequestTool, refuses_answers_that_are_too_large) {
  tool_ = tool_allowing("127.0.0.1", 1000);
  output_of(given(http_reply(200, std::string(1000, 'x'))));
  expect_failure(given(http_reply(200, std::string(1001, 'x'))), "TOOL_OUTPUT_TOO_LARGE");
  expect_failure(given("HTTP/1.1 200 OK\r\n\r\n" + std::string(1 << 20, 'x')), "TOOL_OUTPUT_TOO_LARGE");
  std::string headers;
  for (int i = 0; i < 2000; ++i) headers += fmt::format("X-{}: {}\r\n", i, std::string(50, 'x'));
  expect_failure(given(http_reply(200, "", headers)), "TOOL_OUTPUT_TOO_LARGE");
}

TEST_F(HttpRequestTool, refuses_arguments_of_the_wrong_kind_by_name) {
  const auto refused = [&](object input, std::string_view key) {
    if (!input.contains("url")) input["url"] = "http://127.0.0.1:1/";
    expect_failure(send(input), "TOOL_INVALID_ARGUMENTS", fmt::format("`{}`", key));
  };
  expect_failure(send({}), "TOOL_INVALID_ARGUMENTS", "`url` is required");
  for (const char* url : {"", "not a url", "file:///etc/passwd", "gopher://x/", "ftp://x/", "http://", "/path"})
    refused({{"url", url}}, "url");
  refused({{"url", 1}}, "url");
  for (const char* method : {"", "TRACE", "CONNECT", "GET / HTTP/1.1\r\nX: y"}) refused({{"method", method}}, "method");
  refused({{"headers", {"a"}}}, "headers");
  refused({{"headers", {{"X", 1}}}}, "headers");
  refused({{"headers", {{"X", "a\r\nY: b"}}}}, "headers");
  refused({{"headers", {{"X: a\r\nY", "b"}}}}, "headers");
  refused({{"headers", {{"Content-Length", "5"}}}}, "headers");
  refused({{"timeout", 5}}, "timeout");
  refused({{"timeout", "0s"}}, "timeout");
  refused({{"connect_timeout", "soon"}}, "connect_timeout");
  refused({{"follow_redirects", "yes"}}, "follow_redirects");
  refused({{"follow_redirects", true}, {"body", "x"}}, "follow_redirects");
  refused({{"follow_redirects", true}, {"writes", true}}, "follow_redirects");
  refused({{"follow_redirects", true}, {"headers", {{"X-HTTP-Method-Override", "PUT"}}}}, "follow_redirects");
}

}  // namespace
}  // namespace pawl
