// Where those are who follow the journal across restarts (Store::follow). Told by any thread, written by the one that
// commits, with whatever it commits next.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "store/sqlite/connection.h"
#include "store/store.h"

namespace pawl::sqlite {

class FollowerCursors {
 public:
  explicit FollowerCursors(Connection& connection);

  // From any thread. Where it is; one that is new is where `first` says.
  Position enter(const std::string& follower, const std::function<Position()>& first);
  void move(const std::string& follower, Position position);
  bool has_news() const;

  // For the committing thread.
  // Within a transaction; true when there was something to write.
  bool write();
  // Of those that are written: every follower wants nothing more of what is up to here. The last position there can be
  // when there are none.
  Position slowest() const { return slowest_; }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Position> now_;
  bool has_news_ = false;

  std::map<std::string, Position> written_;
  Position slowest_ = UINT64_MAX;
  Statement put_;
};

}  // namespace pawl::sqlite
