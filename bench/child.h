// Another process on this machine, and what the kernel says about its threads.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace pawl::bench {

class Child {
 public:
  // Executes the program; its standard output is kept for read_line(), what it says beside that goes to the file.
  Child(const std::vector<std::string>& command, const std::filesystem::path& errors);
  ~Child();  // asks it to stop, and waits for it
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string read_line();
  // Seconds of processor time so far, by the threads' names.
  std::map<std::string, double> cpu_seconds() const;

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

// How many cores the threads of some children, by their names, and this process kept busy since the object was made:
// "http 0.51, engine 0.62, ..., client 0.40".
class Cores {
 public:
  explicit Cores(std::vector<const Child*> children);
  std::string text() const;

 private:
  std::map<std::string, double> seconds_by_name() const;

  std::vector<const Child*> children_;
  std::map<std::string, double> before_;
  double client_before_;
  double begin_;
};

}  // namespace pawl::bench
