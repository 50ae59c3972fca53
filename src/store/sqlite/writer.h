// Everything that changes the database: commits, pruning, checkpoints. Belongs to the committing thread.
#pragma once

#include <deque>
#include <optional>
#include <span>

#include "store/sqlite/connection.h"
#include "store/sqlite/follower_cursors.h"
#include "store/sqlite/schema.h"
#include "store/store.h"

namespace pawl::sqlite {

struct WriterLimits {
  // The log is moved into the database when it is larger than this. Larger: fewer page writes, because a page that
  // changed often is moved once. Smaller: a shorter start after a crash.
  int wal_pages_max = 0;
  // tidy() moves it already when more than this is left to move.
  int wal_pages_idle = 0;
  std::size_t frame_bytes_kept = 0;
  std::size_t followed_bytes_max = 0;
};

class Writer {
 public:
  Writer(Connection& connection, WriterLimits limits);

  void commit(std::span<const Frame> frames);
  // Drops a bounded number of frames that are no longer needed, and writes where followers are. True when it changed
  // something.
  bool prune();
  // Thread-safe, unlike the rest.
  FollowerCursors& followers() { return followers_; }

  bool wants_checkpoint() const { return wal_pages_ > next_checkpoint_pages_; }
  bool wants_checkpoint_when_idle() const { return wal_pages_left() > limits_.wal_pages_idle; }
  // So little that a commit can wait for it, or so much that it must.
  bool may_finish_checkpoint() const {
    return wal_pages_left() < limits_.wal_pages_max / 8 || wal_pages_ > 4 * limits_.wal_pages_max;
  }
  void checkpoint();
  // Another connection's passes: the log must not have started over between these two.
  void checkpoint_begins() { started_over_ = false; }
  void checkpoint_ended(const Connection::Checkpoint& done);

 private:
  void write_frame(const Frame& frame);
  void fold(const RunFold& fold);
  void fold(const TenantFold& fold);
  void put(const ApprovalRow& row);
  void put(const ReceiptRow& row);
  void put(const BundleRow& row);
  void put_starts(const Frame& frame);
  void prune_frames(std::size_t count_max);
  void note_frame(std::size_t bytes);
  // The oldest frame may go, as far as its size and those who follow are concerned.
  bool may_drop_oldest(std::size_t kept_max) const;
  void prune_starts();
  void note_wal_pages(int pages);
  int wal_pages_left() const { return wal_pages_ - wal_pages_done_; }
  // Gives the number of the stream's newest piece.
  std::int64_t append_history(const RunFold& fold);

  Connection& connection_;
  WriterLimits limits_;
  int wal_pages_ = 0;       // as of the last commit
  int wal_pages_done_ = 0;  // of these, how many are in the database too
  bool started_over_ = false;
  int next_checkpoint_pages_;

  Position first_position_ = 1;          // of the frames that are stored
  std::deque<std::size_t> frame_bytes_;  // of each stored frame
  std::size_t frame_bytes_in_all_ = 0;
  Position last_position_ = 0;
  Position folded_before_ = 0;
  Instant newest_start_;

  FollowerCursors followers_;
  Transaction::Statements transaction_;
  Statement insert_frame_, prune_frames_;
  Statement insert_history_, append_history_, find_run_stream_, find_tenant_stream_;
  Statement insert_run_, update_run_;
  Statement insert_request_;
  Statement put_approval_, put_receipt_, put_bundle_, put_tenant_, put_workflow_;
  Statement insert_start_, prune_starts_;
};

}  // namespace pawl::sqlite
