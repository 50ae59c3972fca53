// Requests to the real routes. An input is what one server is asked in its life, one request after the other:
//
//   POST /runs?vocabulary=runtime
//   as: operator
//   idempotency-key: k
//
//   {"workflow": "w"}
//   ===
//   POST /runs/$run/cancel
//   ===
//   WAIT 90s
//
// `as` chooses a key (admin by default, see FuzzServer). $run, $approval, $key, $lease, $token and $cursor stand for
// the last one that an answer named. WAIT moves the clock.
#include <algorithm>
#include <array>
#include <set>

#include "core/characters.h"
#include "fuzz_server.h"

namespace pawl::fuzz {
namespace {

using http::Method;
using http::Request;
using http::Response;

constexpr std::size_t requests_max = 12;
constexpr Duration wait_max = std::chrono::hours(48);

std::string_view take_until(std::string_view& text, std::string_view end) {
  const auto taken = text.substr(0, text.find(end));
  text.remove_prefix(std::min(text.size(), taken.size() + end.size()));
  return taken;
}

// What answers have named, so that later requests can.
class Memory {
 public:
  void learn(std::string_view body) {
    for (Known& known : known_) {
      for (auto at = body.find(known.mark); at != body.npos; at = body.find(known.mark, at + 1)) {
        const auto from = known.mark.ends_with('_') ? at : at + known.mark.size();
        known.value = body.substr(from, body.find_first_of(known.ends, at + known.mark.size()) - from);
        if (known.name == "$run" && RunId::parse(known.value)) runs_.insert(known.value);
      }
    }
  }
  std::string fill_in(std::string_view text) const {
    std::string out(text);
    for (const Known& known : known_)
      for (auto at = out.find(known.name); at != out.npos; at = out.find(known.name, at + known.value.size()))
        out.replace(at, known.name.size(), known.value);
    return out;
  }
  const std::set<std::string>& runs() const { return runs_; }

 private:
  // What stands behind the mark, up to its end; of an id, with it.
  struct Known {
    std::string_view name;
    std::string_view mark;
    std::string_view ends;
    std::string value;
  };
  std::array<Known, 6> known_{
      Known{"$run", "run_", "\":", "run_01kaw3v9m8f2hr4x6q0t7c5ezy"},
      Known{"$approval", "apr_", "\"", "apr_01kaw3v9m8f2hr4x6q0t7c5ezy"},
      Known{"$key", "key_", "\"", "key_01kaw3v9m8f2hr4x6q0t7c5ezy"},
      Known{"$lease", "\"lease_id\":\"", "\"", "run_01kaw3v9m8f2hr4x6q0t7c5ezy:a"},
      Known{"$token", "\"token\":", ",}", "1"},
      Known{"$cursor", "\"next_cursor\":\"", "\"", "run_01kaw3v9m8f2hr4x6q0t7c5ezy"},
  };
  std::set<std::string> runs_;
};

// Only what a connection would let through.
std::string visible(std::string_view text) {
  std::string out;
  std::ranges::copy_if(text, std::back_inserter(out), [](unsigned char c) { return c > 0x20 && c != 0x7f; });
  return out;
}

Request read_request(std::string_view text, const FuzzServer& server) {
  static const std::map<std::string_view, Method> methods{
      {"GET", Method::get},     {"HEAD", Method::head},      {"POST", Method::post},      {"PUT", Method::put},
      {"PATCH", Method::patch}, {"DELETE", Method::delete_}, {"OPTIONS", Method::options}};
  Request request;
  std::string_view line = take_until(text, "\n");
  const auto method = methods.find(take_until(line, " "));
  request.method = method == methods.end() ? Method::get : method->second;
  const std::string target = visible(line);
  request.path = target.substr(0, target.find('?'));
  if (request.path.size() < target.size()) request.query = target.substr(request.path.size() + 1);
  if (!request.path.starts_with('/')) request.path.insert(0, "/");
  std::string key = server.key("admin");
  for (line = take_until(text, "\n"); !line.empty(); line = take_until(text, "\n")) {
    const std::string name = visible(take_until(line, ": "));
    if (name == "as")
      key = server.key(line);
    else
      request.headers.emplace_back(name, visible(line));
  }
  if (!key.empty()) request.headers.emplace_back("authorization", "Bearer " + key);
  request.body = text;
  return request;
}

void check_problem(const Response& response, const Json& body) {
  check_equal(response.content_type, "application/problem+json", "an error is a problem");
  const auto* problem = body.if_object();
  check(problem && problem->at("status").as_int64() == response.status, "a problem has its answer's status");
  for (const char* key : {"type", "title", "code", "detail"}) {
    const Json* text = problem->if_contains(key);
    check(text && text->is_string() && !text->get_string().empty(), "a problem says what is wrong");
  }
}

void check_answer(const Response& response) {
  constexpr std::array statuses{200, 201, 400, 401, 403, 404, 405, 409, 410, 422};
  if (std::ranges::find(statuses, response.status) == statuses.end())
    throw Broken("an answer has an unlikely status: " + std::to_string(response.status) + " " + response.body);
  for (const auto& [name, value] : response.headers)
    check(!name.empty() && value.find_first_of("\r\n") == std::string::npos, "a header is one line");
  check(!find_invalid_utf8(response.body), "an answer is text");
  if (!response.content_type.ends_with("json")) return check(response.status == 200, "a problem is JSON");
  const auto body = parse_json(response.body);
  if (!body) throw Broken("an answer is not JSON: " + body.error() + "\n" + response.body);
  if (response.status >= 400) check_problem(response, *body);
}

class Play {
 public:
  void act(std::string_view text) {
    const std::string filled = memory_.fill_in(text);
    if (filled.starts_with("WAIT ")) {
      const auto span = parse_duration(std::string_view(filled).substr(5, filled.find('\n') - 5));
      if (span) house_.wait(std::min(*span, wait_max));
      return;
    }
    const Request request = read_request(filled, house_);
    const Response response = house_.ask(request);
    check_answer(response);
    if (response.status < 300 && request.path != "/openapi.json") memory_.learn(response.body);
    if (response.stream) follow(response);
    if (request.method == Method::get && !response.stream && request.path.find("metrics") == std::string::npos)
      check_equal(house_.ask(request).body, response.body, "looking changes nothing");
    if (response.status == 201 && !request.header("idempotency-key").empty() && request.path.ends_with("/runs"))
      check_repeat(request, response);
  }

  void end() {
    std::map<std::string, std::string> before;
    for (const std::string& run : memory_.runs()) {
      check_hidden(run);
      before[run] = shown(run);
    }
    if (!before.empty()) house_.restart();
    for (const auto& [run, text] : before) check_equal(shown(run), text, "a run is the same after a restart");
    house_.verify();
    for (const auto& channel : channels_) check_messages(*channel);
  }

 private:
  void follow(const Response& response) {
    channels_.push_back(std::make_shared<KeptMessages>());
    response.stream(channels_.back());
  }

  std::string shown(const std::string& run) {
    return house_.ask(read_request("GET /runs/" + run, house_)).body +
           house_.ask(read_request("GET /runs/" + run + "/events", house_)).body;
  }

  void check_repeat(const Request& request, const Response& first) {
    const Response again = house_.ask(request);
    check(again.status == 200, "a repeat is answered 200");
    check_equal(again.body, first.body, "a repeat finds the same run");
    check(std::ranges::find(again.headers, std::pair<std::string, std::string>("Idempotency-Replayed", "true")) !=
              again.headers.end(),
          "a repeat says that it is one");
  }

  // For a neighbour, a run that is another's and one that never was are the same.
  void check_hidden(const std::string& run) {
    for (const std::string_view rest : {"", "/events"}) {
      const auto ask = [&](std::string_view id) {
        return house_.ask(
            read_request("GET /runs/" + std::string(id) + std::string(rest) + "\nas: neighbour\n", house_));
      };
      const auto foreign = ask(run);
      const auto never = ask("run_01kaw3v9m8f2hr4x6q0t7c5ezz");
      if (owned_by_neighbour(run)) continue;
      check(foreign.status == 404 && foreign.status == never.status, "another's run is not there");
      check_equal(foreign.body, never.body, "another's run looks like none");
    }
  }
  bool owned_by_neighbour(const std::string& run) {
    return house_.ask(read_request("GET /runs/" + run, house_)).status == 404;
  }

  static void check_messages(KeptMessages& channel) {
    std::set<std::string> seen;
    for (const auto& message : channel.end()) {
      check(api::PositionId::parse(message.id).has_value(), "a message has a position");
      check(message.data.empty() || seen.insert(message.id).second, "no two events have the same position");
      check(message.data.empty() || parse_json(message.data).has_value(), "a message is JSON, or says where it is");
    }
  }

  FuzzServer house_;
  Memory memory_;
  std::vector<std::shared_ptr<KeptMessages>> channels_;
};

}  // namespace

FUZZ_TARGET(requests) {
  Play play;
  for (std::size_t i = 0; i < requests_max && !input.empty(); ++i) play.act(take_until(input, "\n===\n"));
  play.end();
}

}  // namespace pawl::fuzz
