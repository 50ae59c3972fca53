// An event as others are told of it: a CloudEvent, with what it is about, when, and metadata. Content (inputs, outputs,
// what is written where) stays here: its size and digest go out in its place.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"
#include "core/task.h"
#include "engine/follower.h"

namespace pawl::notify {

// What goes out is no larger than receivers take.
inline constexpr std::size_t envelope_bytes_max = 20'000;

// The same for every delivery of the same event, and of no other.
std::string envelope_id(RunId run, std::uint64_t seq);

// Of an event of a run, or of a task; `parsed` is its line. `task`: as it is now, of an event of one.
boost::json::object envelope_of(const JournalEvent& event, const boost::json::object& parsed, std::string_view workflow,
                                const Task* task = nullptr);

}  // namespace pawl::notify
