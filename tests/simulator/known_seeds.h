// The seeds that found the planted bugs last (planted_seeds.txt), in lines `BUG SEED`. A seed that found a bug once
// finds it at once, until something changes what simulations do.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace pawl::simulator {

using KnownSeeds = std::map<std::string, std::uint64_t, std::less<>>;

inline KnownSeeds read_known_seeds(const char* file) {
  KnownSeeds out;
  std::ifstream lines(file);
  if (!lines) {
    std::fprintf(stderr, "cannot read %s\n", file);
    std::exit(2);
  }
  std::string bug;
  for (std::uint64_t seed = 0; lines >> bug >> seed;) out[bug] = seed;
  return out;
}

}  // namespace pawl::simulator
