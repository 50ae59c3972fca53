// The part of evolve() that applies a task's events. For evolve.cc only.
#pragma once

#include <expected>
#include <string>
#include <utility>

#include "core/event.h"

namespace pawl {

inline std::unexpected<std::string> invalid_event(std::string reason) { return std::unexpected(std::move(reason)); }

// Whether this kind of event may stand in the stream of a task.
bool concerns_task(const RunPayload& payload);

// The first event: what was asked for is its input.
std::expected<void, std::string> begin_task(Run& run, Instant at);
std::expected<void, std::string> evolve_task(Run& run, const TaskMoved& event, Instant at);
std::expected<void, std::string> evolve_task(Run& run, const TaskAsked& event, Instant at);
std::expected<void, std::string> evolve_task(Run& run, const TaskSubtask& event, Instant at);
std::expected<void, std::string> evolve_task(Run& run, const TaskChanged& event, Instant at);
std::expected<void, std::string> evolve_task(Run& run, const TaskDeleted& event, Instant at);

}  // namespace pawl
