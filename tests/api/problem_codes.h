// The codes of problems that the HTTP interface has beyond those of core's RefusalCode. docs/errors.md prints this
// table, and the tests compare the sources with it. One code has one status:
//
//   400  not understood: syntax, a wrong kind of value, a key or parameter that is not known here
//   413  a part of it is larger than that part may be
//   422  understood, and it cannot be done whatever the state of things
//   409  understood, and it does not fit the present state
#pragma once

#include <array>
#include <string_view>

namespace pawl::api {

struct ProblemCode {
  std::string_view code;
  int status;
  std::string_view meaning;
  std::string_view what_to_do;
};

inline constexpr std::array problem_codes{
    ProblemCode{"INVALID_JSON", 400, "The body is not JSON, or a key stands in it twice.",
                "Correct it; the detail says at which byte."},
    ProblemCode{"REQUEST_MALFORMED", 400, "This is no well-formed HTTP request.",
                "Look for what stands between: a proxy, or a client of another protocol."},
    ProblemCode{"UNAUTHORIZED", 401, "There is no key, or none that is known here and has not expired.",
                "Send `Authorization: Bearer pawl_...`."},
    ProblemCode{"FORBIDDEN", 403, "The key's role, or its tenant, may not do this.",
                "Ask with a key of another role; the route's description lists them."},
    ProblemCode{"TENANT_SUSPENDED", 403, "The installation has suspended the tenant of this key.",
                "Ask those who run the server; nothing is lost, and work goes on once the tenant is resumed."},
    ProblemCode{"ORIGIN_NOT_ALLOWED", 403, "A page of this origin may not use this server.",
                "Start the server with `--origin` and the page's origin."},
    ProblemCode{"METHOD_NOT_ALLOWED", 405, "The path is there, for other methods.", "See the header `Allow`."},
    ProblemCode{"REQUEST_TOO_SLOW", 408, "The request did not arrive in time.", "Send it again, in one go."},
    ProblemCode{"KEY_NOT_ACTIVE", 409, "The key was replaced or revoked, or its time is over.",
                "Rotate its successor, or make a new key."},
    ProblemCode{"SIGNING_KEY_LOST", 409, "The server does not have the key that signs the tenant's evidence.",
                "Those who run it restore `signing-key.json` from a backup; what was signed stays valid."},
    ProblemCode{"FEED_POSITION_GONE", 410, "What follows this position of the feed is not kept any more.",
                "Read the runs as they are, then follow without a position."},
    ProblemCode{"BODY_TOO_LARGE", 413, "The body has more than 8 MiB.", "Send it in several requests."},
    ProblemCode{"INPUT_TOO_LARGE", 413, "A run's input, or an answer, has more than 1 MiB of canonical JSON.",
                "Store it elsewhere, and say in the input where it lies."},
    ProblemCode{"OUTPUT_TOO_LARGE", 413, "A step's output has more than 1 MiB of canonical JSON.",
                "Store it elsewhere, and say in the output where it lies; or report the step as failed."},
    ProblemCode{"EXPECTATION_UNKNOWN", 417, "The only expectation is `100-continue`.",
                "Leave the header `Expect` out."},
    ProblemCode{"HOST_NOT_ALLOWED", 421, "The server is not called by the name in the header `Host`.",
                "Use its own name; or start it with `--host` and the name that a proxy calls it by."},
    ProblemCode{"UNKNOWN_TENANT", 422, "There is no tenant of this name.", "Make it first: `POST /tenants`."},
    ProblemCode{"INVALID_WORKFLOW", 422, "The definition does not validate.",
                "Correct it; the detail names the place."},
    ProblemCode{"INVALID_POLICY", 422, "The policy does not validate, or one of its conditions does not compile.",
                "Correct it; the detail names the place and the rule."},
    ProblemCode{"WEBSOCKET_VERSION_UNKNOWN", 426, "The WebSocket's version is not 13.",
                "Use a client of this century."},
    ProblemCode{"TENANT_LIMIT", 429,
                "The tenant, or the key, has as many requests, connections, feeds or bytes under way as it may.",
                "Send it again after `Retry-After`; the detail names the limit."},
    ProblemCode{"HEADERS_TOO_LARGE", 431, "The headers have more than 16 KiB, or there are more than 128.",
                "Send fewer, and a shorter query."},
    ProblemCode{"INTERNAL", 500, "Something went wrong here.", "Look into the server's log."},
    ProblemCode{"METHOD_UNKNOWN", 501, "There is no such method.", "See the header `Allow` of `OPTIONS` for the path."},
    ProblemCode{"NOT_ANSWERED", 503, "The request was given up, most likely because the server stops.",
                "Send it again if repeats are safe; otherwise look first."},
    ProblemCode{"OVERLOADED", 503, "More requests wait than can be served soon.", "Send it again after `Retry-After`."},
    ProblemCode{"STORE_AWAY", 503, "The database cannot be reached just now.",
                "Send it again after `Retry-After`; the server goes on by itself when it is back."},
    ProblemCode{"STOPPING", 503, "The server is stopping.", "Ask again later."},
    ProblemCode{"TOO_MANY_BYTES", 503, "The bodies of all requests together are too large.",
                "Send it again after `Retry-After`."},
    ProblemCode{"TOO_MANY_CONNECTIONS", 503, "Too many connections are open.", "Use fewer, and keep them."},
};

}  // namespace pawl::api
