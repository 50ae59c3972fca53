// Remote workers: take leases, keep them, report on them. routes_actions.cc has what they do in between.
#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "api/api.h"
#include "api/lease_id.h"
#include "crypto/sha256.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t items_max = 10'000;
constexpr std::int64_t leases_max = 1000;
constexpr std::size_t tools_max = 200;
constexpr Duration wait_max = std::chrono::seconds(60);

// Written by hand: the input is JSON already, and this is what workers wait for.
std::string leases_text(const std::vector<Lease>& leases) {
  std::string out = "{\"leases\":[";
  for (const Lease& lease : leases) {
    if (out.back() == '}') out += ',';
    out += "{\"lease_id\":\"" + lease_id(lease.run, lease.step) + "\",\"token\":\"" + lease.remote_token + "\"";
    out +=
        ",\"run_id\":\"" + lease.run.str() + "\",\"step_id\":\"" + lease.step.text + "\",\"tool\":\"" + lease.tool.text;
    out += "\",\"input\":" + lease.input;
    if (!lease.question.empty())
      out += ",\"question\":" + lease.question + ",\"answer\":" + (lease.answer.empty() ? "null" : lease.answer);
    out += ",\"attempt\":" + std::to_string(lease.attempt) + ",\"idempotency_key\":";
    append_json_string(out, lease.idempotency_key);
    out += ",\"expires_at\":\"" + print_time(lease.expires_at) + "\",\"lease\":\"" + print_duration(lease.term) +
           "\",\"timeout\":\"" + print_duration(lease.timeout) + "\"}";
  }
  return out + "]}";
}

void take_leases(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"worker", "tools", "max", "wait"});
  Poll poll;
  poll.tenant = call->who.tenant;
  poll.key = call->who.key;
  // The name cannot pass for one of this process's own: those begin with local/.
  poll.worker = WorkerName{input.name("worker")};
  const Json* tools = input.find("tools");
  if (!tools || !tools->is_array() || tools->get_array().empty() || tools->get_array().size() > tools_max)
    input.refuse("tools", "must be a list of 1 to 200 tool names");
  for (const Json& tool : tools->get_array()) {
    if (!tool.is_string() || !is_valid_name(tool.get_string())) input.refuse("tools", "must hold names of tools");
    if (is_reserved_name(tool.get_string())) input.refuse("tools", "must not hold pawl's own");
    poll.tools.push_back(ToolName{std::string(tool.get_string())});
  }
  // A worker's key must not take over, while the server is busy, what the server executes itself: the author of such a
  // step relies on the server for its outcome.
  const auto& own = call->api.local_worker().tools;
  std::erase_if(poll.tools, [&](const ToolName& tool) { return std::ranges::find(own, tool) != own.end(); });
  poll.max = static_cast<int>(input.number("max", 1, leases_max).value_or(1));
  poll.wait = input.duration("wait").value_or(Duration(0));
  if (poll.wait > wait_max) input.refuse("wait", "can be 60s at most");
  if (poll.wait > Duration(0)) keep_open(call);
  const Instant now = call->api.clock().now();
  call->api.workers().polled(
      call->who.tenant, {.name = poll.worker, .key = poll.key, .tools = poll.tools, .since = now, .last_seen = now},
      now + poll.wait);
  poll.is_wanted = [call] {
    const auto& gone = call->request.gone;
    return !call->is_answered && (!gone || !gone->load(std::memory_order_relaxed));
  };
  poll.reply = [call](std::vector<Lease> leases) {
    call->respond(
        {.status = 200, .content_type = "application/json", .body = leases_text(leases), .headers = {}, .stream = {}});
  };
  call->api.runtime().post([poll = std::move(poll)](Engine& engine) mutable { engine.poll(std::move(poll)); });
}

struct ReportItem {
  std::string lease_id;
  std::optional<LeaseRef> lease;
  Hash token_digest;
  StepOutcome outcome;
  std::string_view code;              // why not; empty = ok
  std::optional<Instant> expires_at;  // of a lease that was extended
  std::optional<Problem> malformed;
};
using ReportItems = std::shared_ptr<std::vector<ReportItem>>;

// A token counts only beside the key that took the lease.
LeaseProof proof_of(const Call& call, const ReportItem& item) {
  return LeaseProof::remote({call.who.key, item.token_digest});
}

void append_result(std::string& out, const ReportItem& item) {
  out += "{\"lease_id\":";
  append_json_string(out, item.lease_id);
  if (item.malformed) {
    // The lease is as it was: what was said of it could not be understood.
    out += ",\"ok\":false,\"code\":\"" + item.malformed->code + "\",\"detail\":";
    append_json_string(out, item.malformed->detail);
    out += ",\"where\":";
    append_json_string(out, item.malformed->where);
    out += '}';
  } else if (item.code.empty()) {
    out += ",\"ok\":true";
    if (item.expires_at) out += ",\"expires_at\":\"" + print_time(*item.expires_at) + "\"";
    out += '}';
  } else {
    // A lease that is lost is work to drop, whatever took it away: cancel, time-out or another worker.
    out += ",\"ok\":false,\"code\":\"" + std::string(item.code) + "\",\"cancel\":true}";
  }
}

void answer_items(Call& call, const std::vector<ReportItem>& items) {
  std::string out = "{\"items\":[";
  for (const ReportItem& item : items) {
    if (out.back() == '}') out += ',';
    append_result(out, item);
  }
  out += "]}";
  call.respond(
      {.status = 200, .content_type = "application/json", .body = std::move(out), .headers = {}, .stream = {}});
}

// What a malformed item calls its lease, as far as that can be said.
std::string lease_id_in(const Json& item) {
  const Json* id = item.is_object() ? item.get_object().if_contains("lease_id") : nullptr;
  return id && id->is_string() && id->get_string().size() <= lease_id_chars_max ? std::string(id->get_string()) : "";
}

template <class ReadOutcome>
ReportItems read_items(const Call& call, ReadOutcome read_outcome) {
  call.query.only({});
  Input input = Input::parse(call.request);
  input.only({"items"});
  auto items = std::make_shared<std::vector<ReportItem>>();
  call.api.workers().heard(call.who.tenant, call.who.key, call.api.clock().now());
  input.each(
      "items", items_max,
      [&](const Input& in) {
        ReportItem item;
        item.lease_id = in.text("lease_id", lease_id_chars_max);
        item.lease = parse_lease_id(item.lease_id);
        item.token_digest = sha256(in.text("token", lease_token_chars_max));
        read_outcome(in, item);
        items->push_back(std::move(item));
      },
      [&](const Problem& problem, const Json& item) {
        items->push_back({.lease_id = lease_id_in(item), .malformed = problem});
      });
  return items;
}

void report(CallPtr call, ReportItems items) {
  call->api.runtime().post([call, items](Engine& engine) {
    for (ReportItem& item : *items) {
      if (item.malformed) continue;
      if (!item.lease) {
        item.code = "LEASE_LOST";
        continue;
      }
      StepReport report{call->who.tenant, item.lease->run, item.lease->step, proof_of(*call, item),
                        std::move(item.outcome)};
      engine.request(ReportStep{report}, [&item, items](std::expected<RunAnswer, Refusal> answer) {
        if (!answer) item.code = to_string(answer.error().code);
      });
    }
    engine.when_durable([call, items] { answer_items(*call, *items); });
  });
}

void complete(CallPtr call) {
  auto items = read_items(*call, [](const Input& in, ReportItem& item) {
    in.only({"lease_id", "token", "output", "cost_usd"});
    Completed done;
    done.output = in.json("output", done.output, step_output_bytes_max, "OUTPUT_TOO_LARGE");
    done.cost = in.money("cost_usd").value_or(Money{});
    item.outcome = std::move(done);
  });
  report(call, items);
}

void fail(CallPtr call) {
  auto items = read_items(*call, [](const Input& in, ReportItem& item) {
    in.only({"lease_id", "token", "error_code", "message", "retryable", "retry_after", "cost_usd"});
    Failed failed;
    failed.error_code = in.text_or("error_code", "TOOL_FAILED", diagnostic_code_chars_max);
    failed.message = in.text_or("message", "", diagnostic_message_chars_max);
    failed.retryable = in.flag("retryable");
    failed.retry_after = in.duration("retry_after");
    failed.cost = in.money("cost_usd").value_or(Money{});
    item.outcome = std::move(failed);
  });
  report(call, items);
}

// Only a worker that has ended its work on the step may say this: another one may have it at once.
void release(CallPtr call) {
  auto items = read_items(*call, [](const Input& in, ReportItem& item) {
    in.only({"lease_id", "token"});
    item.outcome = Released{};
  });
  report(call, items);
}

// Answers when all of a request's leases have been decided on. With several servers some may take longer: those that
// lose against another server's write are decided again.
class HeartbeatAnswer {
 public:
  HeartbeatAnswer(CallPtr call, ReportItems items)
      : call_(std::move(call)), items_(std::move(items)), open_(items_->size()) {}
  ReportItem& item(std::size_t at) { return (*items_)[at]; }
  void decided() {
    if (--open_ == 0)
      call_->api.answers().post(call_->who.tenant, [call = call_, items = items_] { answer_items(*call, *items); });
  }

 private:
  CallPtr call_;
  ReportItems items_;
  std::atomic<std::size_t> open_;  // the engine decides some at once, others answer from the thread that commits
};

// Urgent: a heartbeat that waits in a crowd costs the lease it was to keep.
void heartbeat(CallPtr call) {
  auto items = read_items(*call, [](const Input& in, ReportItem&) { in.only({"lease_id", "token"}); });
  if (items->empty()) return answer_items(*call, *items);
  call->api.runtime().post_urgent([call, items](Engine& engine) {
    std::vector<StreamKey> runs;
    for (const ReportItem& item : *items)
      if (item.lease) runs.push_back(StreamKey::of(call->who.tenant, item.lease->run));
    engine.expect(runs);
    auto answer = std::make_shared<HeartbeatAnswer>(call, items);
    for (std::size_t at = 0; at < items->size(); ++at) {
      const ReportItem& item = (*items)[at];
      if (item.malformed || !item.lease) {
        if (!item.malformed) answer->item(at).code = "LEASE_LOST";
        answer->decided();
        continue;
      }
      engine.request(Heartbeat{call->who.tenant, item.lease->run, item.lease->step, proof_of(*call, item)},
                     [answer, at](std::expected<Instant, Refusal> until) {
                       if (until)
                         answer->item(at).expires_at = *until;
                       else
                         answer->item(at).code = to_string(until.error().code);
                       answer->decided();
                     });
    }
  });
}

}  // namespace

std::vector<Route> lease_routes() {
  using enum Method;
  using enum Access;
  return {
      {post, "/leases", worker, take_leases, "Take steps to work on; waits for them if asked to", RouteKind::waits},
      {post, "/leases/complete", worker, complete, "Report results"},
      {post, "/leases/fail", worker, fail, "Report failures"},
      {post, "/leases/release", worker, release, "Give leases back without using up an attempt"},
      {post, "/leases/heartbeat", worker, heartbeat, "Keep leases; learn of cancellations"},
  };
}

}  // namespace pawl::api
