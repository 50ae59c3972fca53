// What tools give back: failures by their codes, and bytes from outside made fit for the journal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/json.h"
#include "engine/lease.h"

namespace pawl {

// Retryable or not is what the table of error codes says, unless the caller sets it.
Failed failure(std::string_view code, std::string message);
// Found before anything was done.
Failed invalid_arguments(std::string message);
// What a tool answers after it was told to stop. Nobody reads it.
Failed stopped();

// Each byte that is not part of a well-formed character becomes U+FFFD.
std::string repaired_utf8(std::string bytes);
// At most `bytes_max` of it, cut between characters, with "..." where something is missing.
std::string head_of(std::string_view utf8, std::size_t bytes_max);
std::string tail_of(std::string_view utf8, std::size_t bytes_max);

// Whether lists and maps nest at most this deep in it.
bool nests_within(const Json& value, std::size_t levels);

}  // namespace pawl
