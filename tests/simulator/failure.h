// How the simulator says that something is wrong: the name of what was broken, and what was seen.
#pragma once

#include <stdexcept>
#include <string>

namespace pawl::simulator {

class Broken : public std::runtime_error {
 public:
  Broken(std::string rule, const std::string& seen) : std::runtime_error(rule + ": " + seen), rule_(std::move(rule)) {}
  const std::string& rule() const { return rule_; }

 private:
  std::string rule_;
};

// `seen` is a text, or a function that makes it: most checks hold, and should cost nothing then.
template <class Seen>
void demand(bool holds, const char* rule, Seen&& seen) {
  if (holds) [[likely]]
    return;
  if constexpr (std::is_invocable_v<Seen>)
    throw Broken(rule, seen());
  else
    throw Broken(rule, seen);
}

}  // namespace pawl::simulator
