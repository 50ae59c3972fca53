// Where a cluster plays: a database of its own in the cluster that tests/postgres/cluster started, whose clock is the
// cluster's. Every time that pawl's functions ask for comes out of a table, so that leases, holds, paces and timers
// pass when the cluster says so and not before.
#pragma once

#include <atomic>
#include <string>

#include "core/time.h"
#include "store/postgres/postgres_store.h"

namespace pawl::cluster {

class Stage {
 public:
  Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage();

  // Empty again, at this moment.
  void clear(Instant now);
  void set_time(Instant now);
  std::unique_ptr<PostgresStore> open() { return std::make_unique<PostgresStore>(PostgresOptions{.url = url_}); }

  // What this server has committed, as the database knows it.
  std::uint64_t commits_of(std::uint32_t server);
  // All events behind a position, which moves on: one frame a commit. Nobody may be committing.
  std::vector<KeptFrame> events_behind(Position& position);

 private:
  postgres::Rows ask(const char* sql, const postgres::Values& values) { return connection_->ask_all(sql, values); }

  std::string name_, url_;
  std::atomic<bool> given_up_ = false;
  std::optional<postgres::Address> admin_address_, address_;
  std::optional<postgres::Connection> admin_, connection_;
};

}  // namespace pawl::cluster
