// Which headers a step may send. A policy judges the method and the URL of a request: no header may make a server take
// another method, host or path, or read another message than libcurl sends.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pawl {

// One line that can be sent.
bool is_header_value(std::string_view value);

// Why the header cannot be sent with this method, which is in capitals; the reason follows "`headers`" in a sentence.
std::optional<std::string> header_problem(std::string_view name, std::string_view value, std::string_view method);

}  // namespace pawl
