#include "store/sqlite/checkpointer.h"

#include <pthread.h>

#include <utility>

namespace pawl::sqlite {

Checkpointer::Checkpointer(const OpenOptions& options) : connection_(options) {
  // Each pass syncs the log before it reads it, and the database after it wrote it.
  connection_.execute("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 0");
  thread_ = std::thread([this] { work(); });
  pthread_setname_np(thread_.native_handle(), "pawl-checkpt");
}

Checkpointer::~Checkpointer() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
  // The writer's connection closes last and leaves the log as it should be; after a failure, as it is.
  connection_.abandon();
}

bool Checkpointer::request() {
  {
    std::lock_guard lock(mutex_);
    if (wanted_) return false;
    wanted_ = true;
  }
  changed_.notify_one();
  return true;
}

bool Checkpointer::is_busy() {
  std::lock_guard lock(mutex_);
  return wanted_;
}

std::optional<Connection::Checkpoint> Checkpointer::take_result() {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return std::exchange(result_, std::nullopt);
}

void Checkpointer::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return wanted_ || ending_; });
    if (ending_) return;
    lock.unlock();
    std::optional<Connection::Checkpoint> done;
    std::exception_ptr failure;
    try {
      done = connection_.checkpoint(SQLITE_CHECKPOINT_PASSIVE);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    result_ = done;
    failure_ = failure;
    wanted_ = false;
    if (failure_) return;
  }
}

}  // namespace pawl::sqlite
