// The gate, for remote workers: what a step's worker may do outside, its outcome, what it asks a person.
//
//   actions -> allow: execute exactly this, then outcome -> complete
//           -> deny, needs_approval: the lease is over: stop working on this step
#include "api/api.h"
#include "api/lease_id.h"
#include "core/characters.h"
#include "crypto/sha256.h"
#include "tools/http_url.h"

namespace pawl::api {
namespace {

using boost::json::object;

LeaseRef lease_of(const Call& call) {
  auto lease = parse_lease_id(call.path[0]);
  if (!lease) throw problem_of(lease_lost_refusal());
  return *lease;
}

// A lease's key is itself the proof, of one attempt; all others show the token that they took the lease with.
LeaseProof proof_in(const Call& call, const Input& input) {
  if (call.who.lease) {
    if (input.has("token")) input.refuse("token", "is not needed with a lease's own key; leave it out");
    return LeaseProof::program(call.who.lease->token);
  }
  return LeaseProof::remote({call.who.key, sha256(input.text("token", lease_token_chars_max))});
}

// Why the target cannot be judged: a URL has one spelling, that in which connectors of this server name it, because
// policies compare it as text. `https://host/public/../admin` leads to /admin.
std::optional<std::string> target_problem(const Action& action) {
  const std::string begin = lower_case(action.target.substr(0, 8));
  if (!begin.starts_with("http://") && !begin.starts_with("https://")) return std::nullopt;
  // Behind `#` stands what is meant at an address, as in https://ghe.example/acme/shop#7. `http` has only addresses.
  const auto end = action.connector == "http" ? std::string::npos : action.target.find('#');
  const std::string url = action.target.substr(0, end);
  const auto normal = normalize_url(url);
  if (!normal) return "`target` " + normal.error();
  const bool is_address = url == *normal || (action.connector != "http" && url + "/" == *normal);
  if (is_address) return std::nullopt;
  return "`target` is a URL that has another spelling; write it as " + *normal;
}

// `key`: under which it may happen once, when the request does not say.
Action read_action_of(const Input& input, const std::string& key) {
  Action action{.connector = input.text("connector", action_name_chars_max),
                .operation = input.text("operation", action_name_chars_max),
                .target = input.text("target", action_target_chars_max),
                .fields = input.json("fields", "{}", action_fields_bytes_max, "ACTION_TOO_LARGE"),
                .risk = input.word<Tier>("risk").value_or(Tier::low),
                .idempotency_key = input.text_or("idempotency_key", key, action_key_chars_max)};
  if (const Json* fields = input.find("fields"); fields && !fields->is_object())
    input.refuse("fields", "must be an object");
  return action;
}

struct ProposalRequest {
  LeaseRef lease;
  LeaseProof proof;
  Proposal proposal;
  bool can_look = false;
  std::optional<bool> happened;
};

ProposalRequest read_proposal(const Call& call) {
  call.query.only({});
  LeaseRef lease = lease_of(call);
  Input input = Input::parse(call.request);
  input.only({"token", "connector", "operation", "target", "fields", "risk", "idempotency_key", "idempotent", "before",
              "can_look", "happened"});
  ProposalRequest request{.lease = std::move(lease), .proof = proof_in(call, input), .proposal = {}};
  request.proposal.action = read_action_of(input, "");
  request.proposal.idempotent = input.flag("idempotent").value_or(false);
  request.proposal.before = input.json("before", "", action_metadata_bytes_max, "ACTION_TOO_LARGE");
  request.happened = input.flag("happened");
  request.can_look = input.flag("can_look").value_or(request.happened.has_value());
  return request;
}

object answer_object(const GateAnswer& answer) {
  object out{{"decision", to_string(answer.effect)}, {"policy_version", answer.policy_reason.policy_version},
             {"rule", answer.policy_reason.rule},    {"reason", answer.policy_reason.reason},
             {"risk", to_string(answer.risk)},       {"digest", answer.digest.hex()}};
  if (answer.effect == Effect::needs_approval) out["approval_id"] = answer.approval.str();
  if (answer.effect != Effect::allow) return out;
  out["receipt_id"] = answer.receipt.str();
  out["is_done"] = answer.is_done;
  if (answer.is_done) {
    auto response = parse_json(answer.response);
    out["response"] = response ? std::move(*response) : Json(nullptr);
  }
  if (auto before = parse_json(answer.before)) out["before"] = std::move(*before);
  return out;
}

void judge(CallPtr call, ProposalRequest request, const Engine::LeaseContext& context) {
  Action& action = request.proposal.action;
  if (action.idempotency_key.empty()) action.idempotency_key = context.idempotency_key;
  if (auto fits = check_action(action); !fits) refuse_input("", fits.error());
  if (auto problem = target_problem(action)) refuse_input("", *problem);
  call->api.gatekeeper().propose({.action = {.tenant = call->who.tenant,
                                             .run = request.lease.run,
                                             .step = request.lease.step,
                                             .proof = request.proof,
                                             .proposal = std::make_shared<const Proposal>(std::move(request.proposal)),
                                             .verdict = {},
                                             .can_look = request.can_look,
                                             .happened = request.happened},
                                  .workspace = context.workspace,
                                  .workflow = context.workflow,
                                  .risk = context.risk},
                                 [call](std::expected<GateAnswer, Refusal> answer) {
                                   if (!answer) return call->answer(problem_of(answer.error()));
                                   call->answer(200, answer_object(*answer));
                                 });
}

// What the policy is told of where the action comes from, and how risky it is at least, is the run's own to say.
void propose(CallPtr call) {
  ProposalRequest request = read_proposal(*call);
  call->api.runtime().post([call, request = std::move(request)](Engine& engine) mutable {
    auto context = engine.lease_context(call->who.tenant, request.lease.run, request.lease.step, request.proof);
    in_background(call, [call, request = std::move(request), context = std::move(context)](Call&) mutable {
      if (!context) throw problem_of(lease_lost_refusal());
      judge(call, std::move(request), *context);
    });
  });
}

void record_outcome(CallPtr call) {
  call->query.only({});
  LeaseRef lease = lease_of(*call);
  auto receipt = ReceiptId::parse(call->path[1]);
  if (!receipt) throw not_found();
  Input input = Input::parse(call->request);
  input.only({"token", "succeeded", "error_code", "message", "response", "undo"});
  const LeaseProof proof = proof_in(*call, input);
  auto succeeded = input.flag("succeeded");
  if (!succeeded) input.refuse("succeeded", "is missing: true or false");
  EffectOutcome outcome{
      .receipt = *receipt,
      .succeeded = *succeeded,
      .error_code = *succeeded ? "" : input.text_or("error_code", "TOOL_FAILED", diagnostic_code_chars_max),
      .message = input.text_or("message", "", diagnostic_message_chars_max),
      .response = input.json("response", "null", action_metadata_bytes_max, "ACTION_TOO_LARGE")};
  if (const Json* undo = input.find("undo")) {
    if (!*succeeded) input.refuse("undo", "belongs to what succeeded");
    if (!undo->is_object()) input.refuse("undo", "must be an action");
    Input in(undo->get_object(), "/undo");
    in.only({"connector", "operation", "target", "fields", "risk", "idempotency_key"});
    Action action = read_action_of(in, "undo:" + receipt->str());
    if (auto fits = check_action(action); !fits) refuse_input("/undo", fits.error());
    if (auto problem = target_problem(action)) refuse_input("/undo", *problem);
    outcome.undo = std::make_shared<const Action>(std::move(action));
  }
  const auto status = outcome.succeeded ? ReceiptStatus::succeeded : ReceiptStatus::failed;
  RunRequest request{call->who.tenant, lease.run, outcome_command(lease.step, proof, outcome)};
  call->api.runtime().request(std::move(request),
                              [call, status, id = *receipt](std::expected<RunAnswer, Refusal> done) {
                                if (!done) return call->answer(problem_of(done.error()));
                                call->answer(200, object{{"receipt_id", id.str()}, {"status", to_string(status)}});
                              });
}

// The lease is over: the step is leased again once there is an answer, which its input then holds.
void ask(CallPtr call) {
  call->query.only({});
  LeaseRef lease = lease_of(*call);
  Input input = Input::parse(call->request);
  input.only({"token", "question"});
  const LeaseProof proof = proof_in(*call, input);
  if (!input.has("question")) input.refuse("question", "is missing");
  JsonText question = input.json("question", {}, question_bytes_max, "QUESTION_TOO_LARGE");
  RunRequest request{call->who.tenant, lease.run, AskQuestion{lease.step, proof, std::move(question)}};
  call->api.runtime().request(std::move(request), [call, lease](std::expected<RunAnswer, Refusal> done) {
    if (!done) return call->answer(problem_of(done.error()));
    call->answer(200, object{{"lease_id", lease_id(lease.run, lease.step)}, {"ok", true}});
  });
}

}  // namespace

std::vector<Route> action_routes() {
  using enum Method;
  using enum Access;
  return {
      {post, "/leases/{id}/actions", worker, propose, "Propose a side effect; learn whether it may happen"},
      {post, "/leases/{id}/actions/{receipt}/outcome", worker, record_outcome, "Say what became of an allowed action"},
      {post, "/leases/{id}/ask", worker, ask, "Ask a person, and give the step back until there is an answer"},
  };
}

}  // namespace pawl::api
