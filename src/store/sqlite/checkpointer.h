// Moves the write-ahead log into the database on a thread and a connection of its own, beside the commits that go on.
// What was committed during a pass is left over; once little is left, the committing thread moves the rest itself, and
// the log starts over.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "store/sqlite/connection.h"

namespace pawl::sqlite {

class Checkpointer {
 public:
  explicit Checkpointer(const OpenOptions& options);
  ~Checkpointer();

  // False when a pass is going on already.
  bool request();
  bool is_busy();
  // What the pass that ended since the last call did. Throws what it threw.
  std::optional<Connection::Checkpoint> take_result();

 private:
  void work();

  Connection connection_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false;  // until its result is there
  bool ending_ = false;
  std::optional<Connection::Checkpoint> result_;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace pawl::sqlite
