// The environment of a step's program: a few names of ours, what the step passes on and sets, and who it works for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lease.h"
#include "tools/arguments.h"
#include "tools/program_terms.h"

namespace pawl {

// Later settings replace earlier ones.
class Environment {
 public:
  void set(std::string_view name, std::string_view value);
  // Our own value, if there is one.
  void pass(const std::string& name);
  const std::vector<std::string>& entries() const { return entries_; }
  std::vector<std::string> take() { return std::move(entries_); }

 private:
  std::vector<std::string> entries_;
};

bool has_nul(std::string_view text);

// PATH and its like, then `pass_env` and `env` of the step. What it works for is added by name_lease, last: a step
// cannot pass itself off as another.
Environment read_environment(Arguments& with, const ProgramTerms& terms, std::span<const char* const> passed_too = {});
void name_lease(Environment& environment, const Lease& lease);

}  // namespace pawl
