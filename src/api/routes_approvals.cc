#include <boost/json/array.hpp>

#include "api/api.h"
#include "api/run_reader.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

// Past it a page ends, however many were asked for.
constexpr std::size_t approvals_bytes_max = 4 << 20;

// All that somebody who decides must know, as the run has it.
object listed_object(const ApprovalRow& row, const Run* run, const Tenant* tenant) {
  object out{{"id", row.id.str()},
             {"run_id", row.run.str()},
             {"step", row.step.text},
             {"status", to_string(row.status)},
             {"tier", to_string(row.tier)},
             {"requested_at", print_time(row.requested_at)},
             {"expires_at", print_time(row.expires_at)}};
  if (!run) return out;
  for (const Approval& approval : run->approvals) {
    if (approval.id != row.id) continue;
    out = approval_object(*run, approval, tenant);
    out["run_id"] = row.run.str();
    out["workflow"] = run->workflow->name.text;
    out["workflow_version"] = run->workflow->version;
  }
  return out;
}

void list_approvals(CallPtr call) {
  call->query.only({"status", "limit", "cursor", "vocabulary"});
  call->vocabulary();
  ApprovalFilter filter;
  if (const auto* word = call->query.find("status")) {
    auto known = parse_enum<ApprovalStatus>(*word);
    if (!known) refuse_input("status", "It must be requested, approved, rejected, expired or canceled.");
    filter.status = *known;
  }
  filter.before = call->query.cursor<ApprovalId>();
  std::uint64_t limit = call->query.number("limit", page_default, page_max);
  filter.limit = limit + 1;  // one more tells whether there are more
  with_fresh_tables(call, std::nullopt, [filter, limit](Call& c) {
    if (filter.before && !c.api.store().find_approval(c.who.tenant, *filter.before)) refuse_cursor();
    auto rows = c.api.store().list_approvals(c.who.tenant, filter);
    bool more = rows.size() > limit;
    if (more) rows.pop_back();
    RunReader runs(c.api.store(), c.who.tenant);
    const auto tenant = c.api.tenants().find(c.who.tenant);
    array items;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < rows.size() && bytes < approvals_bytes_max; ++i) {
      const Run* run = runs.find(rows[i].run);
      if (run)
        for (const Approval& approval : run->approvals)
          if (approval.id == rows[i].id && approval.proposal) bytes += approval.proposal->action.fields.size();
      items.push_back(listed_object(rows[i], run, tenant.get()));
    }
    more = more || items.size() < rows.size();
    const Json cursor = more && !items.empty() ? Json(rows[items.size() - 1].id.str()) : Json(nullptr);
    c.answer(200, object{{"items", std::move(items)}, {"next_cursor", cursor}});
  });
}

void get_approval(CallPtr call) {
  call->query.only({"vocabulary"});
  call->vocabulary();
  auto id = ApprovalId::parse(call->path[0]);
  if (!id) throw not_found();
  with_fresh_tables(call, std::nullopt, [id](Call& c) {
    auto row = c.api.store().find_approval(c.who.tenant, *id);
    if (!row) throw not_found();
    RunReader runs(c.api.store(), c.who.tenant);
    c.answer(200, listed_object(*row, runs.find(row->run), c.api.tenants().find(c.who.tenant).get()));
  });
}

void decide_approval(CallPtr call, bool approve) {
  call->query.only({"vocabulary"});
  auto id = ApprovalId::parse(call->path[0]);
  if (!id) throw not_found();
  Input input = Input::parse(call->request);
  input.only({"reason"});
  ResolveApproval command{
      .approval = *id, .approve = approve, .by = call->who.actor(), .reason = input.text_or("reason", "", 2000)};
  with_fresh_tables(call, std::nullopt, [call, id, command](Call& c) {
    auto row = c.api.store().find_approval(c.who.tenant, *id);
    if (!row) throw not_found();
    command_run(call, row->run, command);
  });
}

// Somebody in the engine that executes the run waits for people here.
void request_approval(CallPtr call) {
  call->query.only({"vocabulary"});
  call->vocabulary();
  Input input = Input::parse(call->request);
  input.only({"approval", "callback"});
  RequestApproval command{.gate = StepId{input.name("approval")}, .callback = {}, .by = call->who.actor()};
  const Json* value = input.find("callback");
  if (!value || !value->is_object()) input.refuse("callback", "must be an object with `kind` and `address`");
  Input callback(value->get_object(), "/callback");
  callback.only({"kind", "address"});
  auto kind = callback.word<CallbackKind>("kind");
  if (!kind) callback.refuse("kind", "is missing; it is task_token, awakeable or handler");
  command.callback = {*kind, callback.text("address", callback_chars_max)};
  command_run(call, run_of(*call), std::move(command));
}

}  // namespace

std::vector<Route> approval_routes() {
  using enum Method;
  using enum Access;
  return {
      {get, "/approvals", viewer, list_approvals, "What waits for a decision"},
      {get, "/approvals/{id}", viewer, get_approval, "An approval: what is asked, and what was decided"},
      {post, "/runs/{id}/approvals", worker, request_approval, "Ask people, from the engine that executes the run"},
      {post, "/approvals/{id}/approve", approver, [](CallPtr call) { decide_approval(std::move(call), true); },
       "Approve it"},
      {post, "/approvals/{id}/reject", approver, [](CallPtr call) { decide_approval(std::move(call), false); },
       "Reject it"},
  };
}

}  // namespace pawl::api
