// What of a TLS certificate another process can know its server by.
#pragma once

#include <filesystem>
#include <string>

namespace pawl {

// "sha256//..." over the public key of the first certificate in this PEM file, as libcurl compares it; empty when there
// is none that can be read.
std::string public_key_pin(const std::filesystem::path& certificate);

}  // namespace pawl
