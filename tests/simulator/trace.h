// What happened in a simulation, in lines, and a hash of it: the same seed must give the same hash. Lines are made only
// when somebody will read them; the hash is always kept, over ids, times and the bytes of every frame.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pawl::simulator {

class Trace {
 public:
  explicit Trace(bool keep_lines) : keep_lines_(keep_lines) {}

  void mix(std::uint64_t value) {
    hash_ ^= value + 0x9e3779b97f4a7c15ULL + (hash_ << 6) + (hash_ >> 2);
    hash_ *= 0xff51afd7ed558ccdULL;
  }
  void mix(std::string_view bytes) {
    std::uint64_t hash = 1469598103934665603ULL;
    for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    mix(hash);
  }
  // `line` makes the text.
  template <class Line>
  void note(Line&& line) {
    if (keep_lines_) lines_.push_back(line());
  }

  std::uint64_t hash() const { return hash_; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  bool keep_lines_;
  std::uint64_t hash_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace pawl::simulator
