// What an answer, or none, means for the next attempt to send something; and the outcome of an attempt.
#pragma once

#include <optional>
#include <string>

#include "engine/lease.h"
#include "notify/notify_context.h"
#include "tools/http_transfer.h"
#include "tools/tool.h"

namespace pawl::notify {

// One that may be over the next time, whatever the table of codes says.
Failed patient_failure(std::string_view code, std::string message);

Failed failure_of(const HttpError& error, const std::string& url);
// Of an answer that is none of success. It is tried again, not before the moment that it asks for.
Failed failure_of(const HttpAnswer& answer, const std::string& url, Instant now);

// Seconds, or a date; at most a day.
std::optional<Duration> retry_after_of(const HttpAnswer& answer, Instant now);

// The output of a tool that sends something has one member that is true when it was sent, and false when there was no
// reason to any more: `member`.
bool says_sent(const JsonText& output, std::string_view member);
Delivery delivery_outcome(const ToolResult& result, std::string_view member);

}  // namespace pawl::notify
