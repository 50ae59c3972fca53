// Signals arrive where a command looks for them, not in the middle of something.
#pragma once

#include "process/descriptor.h"

namespace pawl {

// SIGINT and its kin, a changed window, Ctrl-Z. Before any thread starts.
void block_signals();

class Signals {
 public:
  // After block_signals().
  Signals();

  // Readable while there is something to take.
  int fd() const { return file_.get(); }

  struct Taken {
    bool interrupted = false;
    bool resized = false;
    bool suspended = false;  // the one who takes this tidies up and stops itself
  };
  // From the first interruption on, another SIGINT ends the process at once: whoever insists does not want to wait.
  Taken take();

 private:
  Descriptor file_;
};

}  // namespace pawl
