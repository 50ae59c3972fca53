// Receipts: what was done outside, or attempted. Settling a doubt, and undoing.
#include <boost/json/array.hpp>

#include "api/api.h"
#include "engine/undoing.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

ReceiptId receipt_of(const Call& call) {
  auto id = ReceiptId::parse(call.path[0]);
  if (!id) throw not_found();
  return *id;
}

object row_object(const ReceiptRow& row) {
  return {
      {"id", row.id.str()}, {"run_id", row.run.str()}, {"status", to_string(row.status)}, {"idempotency_key", row.key}};
}

void list_receipts(CallPtr call) {
  call->query.only({"status", "limit", "cursor"});
  ReceiptFilter filter;
  if (const auto* word = call->query.find("status")) {
    filter.status = parse_enum<ReceiptStatus>(*word);
    if (!filter.status) refuse_input("status", "It must be intended, succeeded, failed, in_doubt or reversed.");
  }
  filter.before = call->query.cursor<ReceiptId>();
  std::uint64_t limit = call->query.number("limit", page_default, page_max);
  filter.limit = limit + 1;  // one more tells whether there are more
  with_fresh_tables(call, std::nullopt, [filter, limit](Call& c) {
    if (filter.before && !c.api.store().find_receipt(c.who.tenant, *filter.before)) refuse_cursor();
    auto rows = c.api.store().list_receipts(c.who.tenant, filter);
    bool more = rows.size() > limit;
    if (more) rows.pop_back();
    array items;
    for (const ReceiptRow& row : rows) items.push_back(row_object(row));
    c.answer(200,
             object{{"items", std::move(items)}, {"next_cursor", more ? Json(rows.back().id.str()) : Json(nullptr)}});
  });
}

// Gives `work` the run that the receipt in the path belongs to.
void with_run_of_receipt(CallPtr call, std::move_only_function<void(RunId, ReceiptId)> work) {
  ReceiptId id = receipt_of(*call);
  with_fresh_tables(call, std::nullopt, [id, work = std::move(work)](Call& c) mutable {
    auto row = c.api.store().find_receipt(c.who.tenant, id);
    if (!row) throw not_found();
    work(row->run, id);
  });
}

Reply<std::shared_ptr<const Run>> reply_with_receipt(CallPtr call, ReceiptId id) {
  return [call, id](std::expected<std::shared_ptr<const Run>, Refusal> run) {
    const Receipt* receipt = run ? find_receipt(**run, id) : nullptr;
    if (!receipt) return call->answer(run ? not_found() : problem_of(run.error()));
    call->answer(200, receipt_object(**run, *receipt));
  };
}

void get_receipt(CallPtr call) {
  call->query.only({});
  with_run_of_receipt(call, [call](RunId run, ReceiptId id) {
    call->api.runtime().request(InspectRun{call->who.tenant, run}, reply_with_receipt(call, id));
  });
}

void settle_receipt(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"happened"});
  auto happened = input.flag("happened");
  if (!happened) input.refuse("happened", "is missing: true or false");
  with_run_of_receipt(call, [call, happened](RunId run, ReceiptId id) {
    RunRequest request{.tenant = call->who.tenant,
                       .run = run,
                       .command = SettleReceipt{id, *happened, call->who.actor()},
                       .wants_state = true};
    call->api.runtime().request(std::move(request), [call, reply = reply_with_receipt(call, id)](
                                                        std::expected<RunAnswer, Refusal> done) mutable {
      if (!done) return call->answer(problem_of(done.error()));
      reply(std::move(done->state));
    });
  });
}

Reply<UndoAnswer> reply_with_undo(CallPtr call) {
  return [call](std::expected<UndoAnswer, Refusal> made) {
    if (!made) return call->answer(problem_of(made.error()));
    array undoing, left;
    for (ReceiptId id : made->plan.undoing) undoing.emplace_back(id.str());
    for (const auto& [id, why] : made->plan.left) left.push_back(object{{"receipt_id", id.str()}, {"why", why}});
    call->answer(made->run.is_new ? 201 : 200, object{{"run_id", made->run.run.str()},
                                                      {"status", to_string(made->run.status)},
                                                      {"undoing", std::move(undoing)},
                                                      {"left", std::move(left)}});
  };
}

void reverse_receipt(CallPtr call) {
  call->query.only({});
  Input::parse(call->request).only({});
  with_run_of_receipt(call, [call](RunId run, ReceiptId id) {
    undo(call->api.runtime(), {.tenant = call->who.tenant, .run = run, .only = id, .by = call->who.actor()},
         reply_with_undo(call));
  });
}

void undo_run(CallPtr call) {
  call->query.only({});
  Input::parse(call->request).only({});
  undo(call->api.runtime(), {.tenant = call->who.tenant, .run = run_of(*call), .by = call->who.actor()},
       reply_with_undo(call));
}

}  // namespace

std::vector<Route> receipt_routes() {
  using enum Method;
  using enum Access;
  return {
      {get, "/receipts", viewer, list_receipts, "What was done outside, newest first"},
      {get, "/receipts/{id}", viewer, get_receipt, "A receipt: what was allowed, done and answered"},
      {post, "/receipts/{id}/settle", approver, settle_receipt, "Say whether an effect that is in doubt happened"},
      {post, "/receipts/{id}/reverse", operator_, reverse_receipt, "Undo one effect, as a run of its own"},
      {post, "/runs/{id}/undo", operator_, undo_run, "Undo what a run did, latest effect first, as a run of its own"},
  };
}

}  // namespace pawl::api
