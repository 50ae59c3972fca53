#include "api/problem.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace pawl::api {
namespace {

std::string_view title_of(int status) {
  switch (status) {
    case 400:
      return "The request cannot be understood";
    case 401:
      return "A key is needed";
    case 403:
      return "This key may not do that";
    case 404:
      return "Not Found";
    case 405:
      return "This cannot be done there";
    case 408:
      return "The request took too long to arrive";
    case 409:
      return "This does not fit the present state";
    case 410:
      return "This is no longer kept";
    case 413:
      return "This is too large";
    case 415:
      return "This kind of content is not taken";
    case 421:
      return "This server has another name";
    case 422:
      return "The request is understood and cannot be done";
    case 429:
      return "Too many requests";
    case 431:
      return "The headers are too large";
    case 503:
      return "Not now";
    default:
      return status >= 500 ? "Something went wrong here" : "The request was refused";
  }
}

}  // namespace

int status_of(RefusalCode code) {
  switch (code) {
    case RefusalCode::not_found:
    case RefusalCode::unknown_approval:
    case RefusalCode::unknown_receipt:
      return 404;
    case RefusalCode::self_approval:
    case RefusalCode::not_a_person:
    case RefusalCode::not_an_approver:
    case RefusalCode::above_ceiling:
      return 403;
    case RefusalCode::invalid:
      return 400;
    case RefusalCode::idempotency_conflict:
    case RefusalCode::task_limit:
    case RefusalCode::unknown_workflow:
    case RefusalCode::unknown_task:
      return 422;
    case RefusalCode::storage_full:
      return 429;
    case RefusalCode::lease_lost:
    case RefusalCode::not_claimable:
    case RefusalCode::nothing_waiting:
    case RefusalCode::already_resolved:
    case RefusalCode::ambiguous_approval:
    case RefusalCode::run_ended:
    case RefusalCode::run_not_ended:
    case RefusalCode::invalid_transition:
    case RefusalCode::not_external:
    case RefusalCode::provider_unset:
    case RefusalCode::outcome_missing:
    case RefusalCode::effect_in_progress:
    case RefusalCode::effect_in_doubt:
    case RefusalCode::not_reversible:
    case RefusalCode::task_transition:
    case RefusalCode::task_active:
    case RefusalCode::task_cycle:
    case RefusalCode::effects_frozen:
      return 409;
    case RefusalCode::policy_changed:
      return 503;
  }
  return 500;
}

Response to_response(const Problem& problem) {
  boost::json::object out{{"type", "about:blank"},
                          {"title", title_of(problem.status)},
                          {"status", problem.status},
                          {"code", problem.code},
                          {"detail", problem.detail}};
  if (!problem.where.empty()) out["where"] = problem.where;
  return {.status = problem.status,
          .content_type = "application/problem+json",
          .body = boost::json::serialize(out),
          .headers = problem.headers,
          .stream = {}};
}

Problem problem_of(const Refusal& refusal) {
  if (refusal.code == RefusalCode::not_found || refusal.code == RefusalCode::unknown_approval ||
      refusal.code == RefusalCode::unknown_receipt)
    return not_found();
  return {.status = status_of(refusal.code),
          .code = std::string(to_string(refusal.code)),
          .detail = refusal.message,
          .where = refusal.field};
}

Problem tenant_limit(std::string detail) {
  return {.status = 429, .code = "TENANT_LIMIT", .detail = std::move(detail), .headers = {{"Retry-After", "1"}}};
}

Problem not_found() {
  return {.status = 404, .code = "NOT_FOUND", .detail = "There is no such object, or it belongs to someone else."};
}

}  // namespace pawl::api
