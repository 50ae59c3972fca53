#include "store/sqlite/follower_cursors.h"

#include <algorithm>

#include "store/sqlite/schema.h"

namespace pawl::sqlite {

FollowerCursors::FollowerCursors(Connection& connection) : put_(connection, put_follower) {
  Statement all(connection, all_followers);
  for (auto rows = all.query(); rows.next();) {
    now_[rows.text(0)] = rows.u64(1);
    slowest_ = std::min(slowest_, rows.u64(1));
  }
  written_ = now_;
}

Position FollowerCursors::enter(const std::string& follower, const std::function<Position()>& first) {
  {
    std::lock_guard lock(mutex_);
    if (auto known = now_.find(follower); known != now_.end()) return known->second;
  }
  Position position = first();
  std::lock_guard lock(mutex_);
  has_news_ = true;
  return now_.try_emplace(follower, position).first->second;
}

void FollowerCursors::move(const std::string& follower, Position position) {
  std::lock_guard lock(mutex_);
  Position& known = now_[follower];
  if (position <= known) return;
  known = position;
  has_news_ = true;
}

bool FollowerCursors::has_news() const {
  std::lock_guard lock(mutex_);
  return has_news_;
}

bool FollowerCursors::write() {
  std::map<std::string, Position> now;
  {
    std::lock_guard lock(mutex_);
    if (!has_news_) return false;
    has_news_ = false;
    now = now_;
  }
  slowest_ = UINT64_MAX;
  for (const auto& [follower, position] : now) {
    auto known = written_.find(follower);
    if (known == written_.end() || known->second != position) put_.run(std::string_view(follower), position);
    slowest_ = std::min(slowest_, position);
  }
  written_ = std::move(now);
  return true;
}

}  // namespace pawl::sqlite
