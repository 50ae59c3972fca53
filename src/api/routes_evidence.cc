#include <boost/json/array.hpp>

#include "api/api.h"
#include "evidence/audit_log.h"
#include "evidence/notary.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

// For what needs the key that signs. Why it is lost is for those who run the server: their log says it.
template <class Sign>
auto with_signing_key(Call& call, Sign sign) {
  try {
    return sign(call.api.notary());
  } catch (const SigningKeyLost& lost) {
    call.api.log().error("nothing can be signed",
                         {{"what", lost.what()}, {"tenant", call.who.tenant_name}, {"request_id", call.request.id}});
    throw Problem{.status = 409,
                  .code = "SIGNING_KEY_LOST",
                  .detail =
                      "This server does not have the key that signs the tenant's evidence, and the journal accepts no "
                      "other. Those who run the server must restore signing-key.json from a backup."};
  }
}

// The run is looked at first: what does not concern the caller, or has not ended, is refused before anything is signed.
void get_evidence(CallPtr call) {
  call->query.only({"partial"});
  const bool is_partial = call->query.flag("partial");
  RunId id = run_of(*call);
  with_fresh_tables(call, id, [id, is_partial](Call& c) {
    auto row = c.api.store().load(c.who.tenant, id);
    if (!row || row->workflow.text == task_workflow_name) throw not_found();
    if (!is_partial && !is_terminal(row->status))
      throw problem_of(
          Refusal{RefusalCode::run_not_ended, "the run has not ended; ?partial=true gives what there is so far"});
    Bundle bundle = with_signing_key(c, [&](Notary& notary) { return notary.bundle(c.who.tenant, id); });
    c.respond({.status = 200,
               .content_type = "application/zip",
               .body = std::move(bundle.bytes),
               .headers = {{"Content-Disposition", "attachment; filename=\"" + id.str() + ".zip\""}},
               .stream = {}});
  });
}

void list_checkpoints(CallPtr call) {
  call->query.only({"limit", "cursor"});
  const std::size_t limit = call->query.number("limit", page_default, page_max);
  std::optional<std::uint64_t> before;
  if (call->query.find("cursor")) before = call->query.number("cursor", 0, INT64_MAX);
  in_background(call, [before, limit](Call& c) {
    auto made = pawl::list_checkpoints(c.api.store(), c.who.tenant, before, limit + 1);
    const bool more = made.size() > limit;
    if (more) made.resize(limit);
    array items;
    for (const SignedCheckpoint& each : made) items.push_back(checkpoint_object(each));
    c.answer(200, object{{"items", std::move(items)},
                         {"next_cursor", more ? Json(std::to_string(made.back().checkpoint.number)) : Json(nullptr)}});
  });
}

void make_checkpoint(CallPtr call) {
  call->query.only({});
  Input::parse(call->request).only({});
  in_background(call, [](Call& c) {
    const bool is_new = with_signing_key(c, [&](Notary& notary) { return notary.cover_all(c.who.tenant); });
    auto made = pawl::list_checkpoints(c.api.store(), c.who.tenant, {}, 1);
    if (made.empty()) throw not_found();
    c.answer(is_new ? 201 : 200, checkpoint_object(made[0]));
  });
}

void prove_consistency(CallPtr call) {
  call->query.only({"from", "to"});
  const std::uint64_t from = call->query.number("from", 0, INT64_MAX), to = call->query.number("to", 0, INT64_MAX);
  if (from == 0) refuse_input("from", "It must be the number of a checkpoint.");
  in_background(call, [from, to](Call& c) {
    auto latest = pawl::list_checkpoints(c.api.store(), c.who.tenant, {}, 1);
    if (latest.empty()) throw not_found();
    auto proof = find_consistency(c.api.store(), c.who.tenant, from, to == 0 ? latest[0].checkpoint.number : to);
    if (!proof) throw not_found();
    object out = consistency_object(*proof);
    out["keys"] = with_signing_key(c, [](Notary& notary) { return keys_object(notary.keys().known); });
    c.answer(200, out);
  });
}

std::optional<Instant> moment_in(const Call& call, std::string_view name) {
  const auto* text = call.query.find(name);
  if (!text) return std::nullopt;
  auto moment = parse_time(*text);
  if (!moment) refuse_input(std::string(name), "It must be a time like 2026-11-16T02:21:57Z.");
  return moment;
}

void list_audit(CallPtr call) {
  call->query.only({"actor", "type", "object", "since", "until", "limit", "cursor"});
  AuditFilter filter{.since = moment_in(*call, "since"), .until = moment_in(*call, "until")};
  for (auto [name, into] :
       {std::pair("actor", &filter.actor), std::pair("type", &filter.type), std::pair("object", &filter.object)})
    if (const auto* text = call->query.find(name)) *into = *text;
  filter.limit = call->query.number("limit", page_default, page_max);
  if (call->query.find("cursor")) filter.before = call->query.number("cursor", 0, INT64_MAX);
  with_fresh_tables(call, std::nullopt, [filter](Call& c) {
    c.answer(200, audit_page_object(read_audit_log(c.api.store(), c.who.tenant, filter)));
  });
}

void list_signing_keys(CallPtr call) {
  call->query.only({});
  in_background(call, [](Call& c) {
    array keys = with_signing_key(c, [](Notary& notary) { return keys_object(notary.keys().known); });
    c.answer(200, object{{"items", std::move(keys)}, {"next_cursor", nullptr}});
  });
}

void rotate_signing_key(CallPtr call) {
  call->query.only({});
  Input::parse(call->request).only({});
  require_default_tenant(*call);
  in_background(call, [](Call& c) {
    array keys = with_signing_key(c, [](Notary& notary) { return keys_object(notary.rotate().known); });
    c.answer(201, keys.back());
  });
}

}  // namespace

std::vector<Route> evidence_routes() {
  using enum Method;
  using enum Access;
  return {
      {get, "/runs/{id}/evidence", viewer, get_evidence, "A run's evidence bundle", RouteKind::heavy},
      {get, "/checkpoints", viewer, list_checkpoints, "List signed checkpoints, newest first"},
      {post, "/checkpoints", operator_, make_checkpoint, "Make a checkpoint now", RouteKind::heavy},
      {get, "/checkpoints/consistency", viewer, prove_consistency,
       "A proof that nothing was taken back between two checkpoints", RouteKind::heavy},
      {get, "/audit", admin, list_audit, "Who changed what in the tenant, newest first", RouteKind::heavy},
      {get, "/signing-keys", viewer, list_signing_keys, "The public keys that sign here"},
      {post, "/signing-keys/rotate", admin, rotate_signing_key, "Let a new key sign (admins of the tenant default)"},
  };
}

}  // namespace pawl::api
