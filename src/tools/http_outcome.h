// What an HTTP exchange that went wrong means for the step and for the receipt of a write: may it be tried again, when,
// and did it certainly have no effect.
#pragma once

#include <optional>

#include "engine/lease.h"
#include "tools/http_transfer.h"
#include "tools/tools.h"

namespace pawl {

// No answer. Harmless when nothing was sent.
Failed transfer_failure(const HttpError& error, const HttpRequest& request, const ToolLimits& limits);

// An answer of 400 or above, with the beginning of its body in the message. Harmless below 500: the server refused.
Failed status_failure(const HttpRequest& request, const HttpAnswer& answer, Instant now);

// What Retry-After says, in seconds or as a date, within reason.
std::optional<Duration> retry_after(const HttpAnswer& answer, Instant now);
// The same of a header that holds the Unix time at which a limit is lifted.
std::optional<Duration> until_unix_time(const HttpAnswer& answer, std::string_view header, Instant now);

HttpRules http_rules(const ToolLimits& limits);

}  // namespace pawl
