// Which pawl this is, and what it is made of.
#pragma once

#include <string>

namespace pawl {

// For people; the first line is "pawl 1.2.3 (revision)".
std::string version_text();

}  // namespace pawl
