// What an answer, or none, means for the next attempt to send something.
#pragma once

#include <optional>
#include <string>

#include "engine/lease.h"
#include "tools/http_transfer.h"

namespace pawl::notify {

// One that may be over the next time, whatever the table of codes says.
Failed patient_failure(std::string_view code, std::string message);

Failed failure_of(const HttpError& error, const std::string& url);
// Of an answer that is none of success. It is tried again, not before the moment that it asks for.
Failed failure_of(const HttpAnswer& answer, const std::string& url, Instant now);

// Seconds, or a date; at most a day.
std::optional<Duration> retry_after_of(const HttpAnswer& answer, Instant now);

}  // namespace pawl::notify
