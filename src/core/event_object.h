// Events as the API and the CLI show them. The journal holds JSON that people and tools gave (inputs, outputs,
// questions, answers) as text, so that hashing does not depend on how a number is spelled. Readers get it as JSON.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"

namespace pawl {

// The event of a line, with JSON values in place of the strings that hold them; the line itself, as a string, when it
// is not an event's.
Json shown_event(std::string_view line);
// The same as canonical text.
std::string shown_event_text(std::string_view line);

}  // namespace pawl
