#include "api/api.h"
#include "api/openapi.h"

namespace pawl::api {
namespace {

void healthz(CallPtr call) { call->answer(200, boost::json::object{{"status", "ok"}}); }

// Ready: the engine decides and the disk syncs, shown by a turn that comes back.
void readyz(CallPtr call) {
  if (!call->api.ready())
    return call->answer(
        {.status = 503, .code = "STOPPING", .detail = "This server is stopping.", .headers = {{"Retry-After", "1"}}});
  if (call->api.is_store_away()) return call->answer(store_away());
  call->api.runtime().post([call](Engine& engine) {
    engine.when_durable([call] {
      boost::json::object out{{"status", "ready"}};
      // It goes on with everything else; what is damaged is not served.
      if (auto damages = call->api.metrics().damages(); damages > 0) out["damage"] = damages;
      call->answer(200, out);
    });
  });
}

void answer_with(Call& call, std::optional<EngineStats> engine, std::optional<WaitingFigures> waiting) {
  Api& api = call.api;
  call.respond({.status = 200,
                .content_type = "text/plain; version=0.0.4; charset=utf-8",
                .body = api.metrics().text({.engine = std::move(engine),
                                            .waiting = waiting,
                                            .now = api.clock().now(),
                                            .feeds = api.feed().subscribers(),
                                            .log_lines_dropped = api.log().dropped()}),
                .headers = {},
                .stream = {}});
}

// While the database is away, what this process itself counts: figures are wanted most when something is wrong.
void metrics(CallPtr call) {
  call->query.only({});
  require_default_tenant(*call);
  if (call->api.is_store_away()) return answer_with(*call, std::nullopt, std::nullopt);
  call->api.runtime().post([call](Engine& engine) {
    in_background(call, [stats = engine.stats()](Call& c) {
      std::optional<WaitingFigures> waiting;
      try {
        waiting = c.api.store().count_waiting();
      } catch (const StoreFailure&) {
        if (!c.api.is_store_away()) throw;
      }
      answer_with(c, stats, waiting);
    });
  });
}

void describe(CallPtr call) {
  call->respond(
      {.status = 200, .content_type = "application/json", .body = openapi_document(), .headers = {}, .stream = {}});
}

}  // namespace

std::vector<Route> operation_routes() {
  return {{Method::get, "/healthz", Access::open, healthz, "Whether this process lives"},
          {Method::get, "/readyz", Access::open, readyz, "Whether it takes work"},
          {Method::get, "/metrics", Access::metrics, metrics, "Figures for Prometheus (keys of the tenant default)",
           RouteKind::heavy},
          {Method::get, "/openapi.json", Access::open, describe, "This API, described for programs (OpenAPI 3.1)"}};
}

}  // namespace pawl::api
