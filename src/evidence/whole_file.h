// A file that nobody sees before it is whole: written beside its place, under a name that no other thread, process or
// container has, for its owner only, and synced. It takes its place in one step, or goes.
#pragma once

#include <filesystem>
#include <string_view>

namespace pawl {

class WholeFile {
 public:
  // Throws std::system_error, as both that follow do.
  WholeFile(std::filesystem::path place, std::string_view bytes);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  // Instead of whatever is there. Durable when it returns.
  void replace();
  // Unless something is there already: false then.
  bool put();

 private:
  std::filesystem::path place_;
  std::filesystem::path draft_;  // empty once it has taken its place
};

}  // namespace pawl
