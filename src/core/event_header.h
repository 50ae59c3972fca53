// The header of an event in the journal: what a reader needs to decide whether the event concerns it. Most readers want
// few events, and parsing all of them takes too long.
//
// A line of the journal is one event as canonical JSON (core/event.h, core/tenant.h). Only the members of the event
// itself count. The same text inside of a string, or in a list or an object inside of the event, is payload: it was
// chosen by a caller, and never decides what an event is.
//
// Pure and thread-safe. One pass over the line up to its "type", no allocation, no copy. The line is trusted to be
// canonical JSON; of any other text the header may be empty or wrong, and nothing worse happens.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/provider.h"

namespace pawl {

struct EventHeader {
  std::string_view type = {};             // "step.claimed"; points into the line; empty when the line is no event
  std::optional<Provider> provider = {};  // of a created run: what executes it
  std::optional<Provider> tells = {};     // the provider that must be told of the event

  // What the event is about: "step" of "step.claimed".
  std::string_view subject() const { return type.substr(0, type.find('.')); }
};

EventHeader read_event_header(std::string_view line);

// Whether an event of this type ends a run.
bool ends_run(std::string_view type);

// The first line, which is taken off `lines`.
inline std::string_view take_line(std::string_view& lines) {
  const std::string_view line = lines.substr(0, lines.find('\n'));
  lines.remove_prefix(std::min(line.size() + 1, lines.size()));
  return line;
}

// Whether one of the events, a line each, is of a type that `is_wanted` accepts.
template <class IsWanted>
bool has_event(std::string_view lines, IsWanted is_wanted) {
  while (!lines.empty())
    if (is_wanted(read_event_header(take_line(lines)))) return true;
  return false;
}

}  // namespace pawl
