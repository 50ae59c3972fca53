#include "api/api.h"

namespace pawl::api {
namespace {

void healthz(CallPtr call) { call->answer(200, boost::json::object{{"status", "ok"}}); }

// Ready: the engine decides and the disk syncs, shown by a turn that comes back.
void readyz(CallPtr call) {
  if (!call->api.ready())
    return call->answer({.status = 503, .code = "STOPPING", .detail = "This server is stopping.", .headers = {{"Retry-After", "1"}}});
  call->api.runtime().post([call](Engine& engine) {
    engine.when_durable([call] { call->answer(200, boost::json::object{{"status", "ready"}}); });
  });
}

}  // namespace

std::vector<Route> operation_routes() {
  return {{Method::get, "/healthz", Access::open, healthz, "Whether this process lives"},
          {Method::get, "/readyz", Access::open, readyz, "Whether it takes work"}};
}

}  // namespace pawl::api
