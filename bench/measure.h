// What the operating system says about this process.
#pragma once

#include <cstdint>

namespace pawl::bench {

// Of the whole process, user and system.
double cpu_seconds_now();
double resident_mib();
// Calls of fsync and fdatasync by this process so far: measure.cc stands in for both.
std::uint64_t syncs();

}  // namespace pawl::bench
