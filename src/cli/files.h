// Files that people name on the command line.
#pragma once

#include <string>

namespace pawl {

// The whole content; `-` is stdin. Stops the command when it cannot be read or is larger than any definition or input
// may be.
std::string read_whole_file(const std::string& path);

}  // namespace pawl
