// What the programs of a run's steps have said. Logs are files of the server that ran the step: with several servers,
// the others have none of it.
#include <boost/json/array.hpp>

#include "api/api.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::uint64_t part_bytes_usual = 256 << 10, part_bytes_max = 1 << 20;
constexpr auto follow_time = std::chrono::seconds(20);

// Where in a log, or how much of it: from nought.
std::optional<std::uint64_t> place_in(const Call& call, std::string_view name) {
  const std::string* text = call.query.find(name);
  if (!text) return std::nullopt;
  return *text == "0" ? 0 : call.query.number(name, 0, INT64_MAX);
}

object part_object(const LogRequest& request, const LogPart& part) {
  return {{"run_id", request.run.str()}, {"step_id", request.step.str()},
          {"attempt", part.attempt},     {"stream", to_string(request.query.stream)},
          {"from", part.from},           {"next", part.next},
          {"ended", part.ended},         {"text", part.text}};
}

// True when there was something to say.
bool answer_part(Call& call, const LogRequest& request, bool is_late) {
  auto part = call.api.logs().read(request.run, request.step, request.query);
  if (!part && !request.follow) {
    call.answer(not_found());
    return true;
  }
  if (request.follow && !is_late && (!part || (part->text.empty() && !part->ended))) return false;
  call.answer(200, part_object(request, part.value_or(LogPart{.attempt = request.query.attempt.value_or(0),
                                                              .from = request.query.after,
                                                              .next = request.query.after,
                                                              .text = {}})));
  return true;
}

void get_log(CallPtr call) {
  call->query.only({"stream", "attempt", "after", "tail", "limit", "follow"});
  LogRequest request = read_log_request(*call);
  request.run = run_of(*call);
  request.step = StepId{call->path[1]};
  answer_log_of_run(std::move(call), std::move(request));
}

void list_logs(CallPtr call) {
  call->query.only({});
  RunId id = run_of(*call);
  call->api.runtime().post([call, id](Engine& engine) {
    engine.request(InspectRun{call->who.tenant, id},
                   [call, id](std::expected<std::shared_ptr<const Run>, Refusal> run) {
                     if (!run) return call->answer(problem_of(run.error()));
                     in_background(call, [id](Call& c) {
                       array steps;
                       for (const StepId& step : c.api.logs().steps(id)) {
                         auto part = c.api.logs().read(id, step, {.bytes_max = 0});
                         if (part) steps.push_back(object{{"step_id", step.str()}, {"attempt", part->attempt}});
                       }
                       c.answer(200, object{{"items", std::move(steps)}, {"next_cursor", nullptr}});
                     });
                   });
  });
}

}  // namespace

LogRequest read_log_request(const Call& call) {
  LogRequest request;
  if (const std::string* word = call.query.find("stream")) {
    // What an agent says on stdout is its stream.
    auto stream = *word == "stream" ? std::optional(LogStream::stdout_) : parse_enum<LogStream>(*word);
    if (!stream) refuse_input("stream", "It must be stdout or stderr.");
    request.query.stream = *stream;
  }
  if (call.query.find("attempt")) request.query.attempt = static_cast<int>(call.query.number("attempt", 1, 1'000'000));
  request.query.after = place_in(call, "after").value_or(0);
  request.query.tail = place_in(call, "tail");
  if (request.query.tail && request.query.after > 0) refuse_input("tail", "It cannot stand beside after.");
  request.query.bytes_max = std::max<std::uint64_t>(4, call.query.number("limit", part_bytes_usual, part_bytes_max));
  if (const std::string* follow = call.query.find("follow")) {
    if (*follow != "true" && *follow != "false") refuse_input("follow", "It must be true or false.");
    request.follow = *follow == "true";
  }
  return request;
}

void answer_log(CallPtr call, LogRequest request) {
  in_background(call, [request = std::move(request), call](Call& c) {
    if (answer_part(c, request, false)) return;
    keep_open(call);
    const bool waits = c.api.log_waits().add(c.who.tenant, follow_time, [call, request](bool is_late) {
      const bool gone = call->request.gone && call->request.gone->load(std::memory_order_relaxed);
      return gone || call->is_answered || answer_part(*call, request, is_late || !call->api.ready());
    });
    if (!waits) answer_part(c, request, true);
  });
}

void answer_log_of_run(CallPtr call, LogRequest request) {
  call->api.runtime().post([call, request = std::move(request)](Engine& engine) {
    // Whose run it is comes first: what concerns others is as if it had never been.
    engine.request(InspectRun{call->who.tenant, request.run},
                   [call, request](std::expected<std::shared_ptr<const Run>, Refusal> run) {
                     if (!run) return call->answer(problem_of(run.error()));
                     if (!(*run)->find_step(request.step)) return call->answer(not_found());
                     answer_log(call, request);
                   });
  });
}

std::vector<Route> log_routes() {
  return {{Method::get, "/runs/{id}/logs", Access::viewer, list_logs, "Which steps of a run have logs"},
          {Method::get, "/runs/{id}/steps/{step}/logs", Access::viewer, get_log, "What a step's program says",
           RouteKind::waits}};
}

}  // namespace pawl::api
