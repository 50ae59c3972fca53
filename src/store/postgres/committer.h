// Commits, each in one round trip, and finds out what became of one whose answer did not arrive.
//
// Every server has a row in `servers`. A commit locks it, compares the epoch and writes its own number there. When the
// connection breaks, the next one moves the epoch on: that waits for a commit that is still running, refuses one that
// arrives later, and tells the number of the last one that happened. Nothing is guessed.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "store/postgres/batch.h"
#include "store/postgres/database.h"
#include "store/store.h"

namespace pawl::postgres {

class Committer {
 public:
  explicit Committer(Database& database) : database_(database), link_(database) {}

  // Enters this server into the database.
  void begin(Deadline deadline);
  std::uint32_t server_number() const { return static_cast<std::uint32_t>(number_); }

  std::vector<Lost> commit(std::span<const Frame> frames);
  void tidy();

 private:
  // What the database knows of this server's last commit, after which only this connection may commit.
  void claim(Connection& connection);

  Database& database_;
  Link link_;
  int number_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t commits_ = 0;                // the last one that was tried
  bool in_doubt_ = false;                    // whether that one happened
  std::optional<std::vector<int>> outcome_;  // of that one, as claim() found it
  RecordTypes types_;
  Deadline next_tidy_{};
  std::uint64_t commits_tidied_ = 0;  // when it last tidied
};

}  // namespace pawl::postgres
