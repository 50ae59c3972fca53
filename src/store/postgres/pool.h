// A few links that any thread may borrow.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "store/postgres/database.h"

namespace pawl::postgres {

class Pool {
 public:
  Pool(Database& database, std::size_t links) {
    for (std::size_t n = 0; n < links; ++n) idle_.push_back(std::make_unique<Link>(database));
  }

  // Link::read with one of them.
  template <class Use>
  auto read(Use use, std::optional<Deadline> deadline = std::nullopt) {
    Borrowed link(*this);
    return link->read(std::move(use), deadline);
  }

 private:
  class Borrowed {
   public:
    explicit Borrowed(Pool& pool) : pool_(pool) {
      std::unique_lock lock(pool_.mutex_);
      pool_.returned_.wait(lock, [&] { return !pool_.idle_.empty(); });
      link_ = std::move(pool_.idle_.back());
      pool_.idle_.pop_back();
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() {
      std::lock_guard lock(pool_.mutex_);
      pool_.idle_.push_back(std::move(link_));
      pool_.returned_.notify_one();
    }
    Link* operator->() const { return link_.get(); }

   private:
    Pool& pool_;
    std::unique_ptr<Link> link_;
  };

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Link>> idle_;
};

}  // namespace pawl::postgres
