// What tests of the PostgreSQL store stand on: a database of their own in the cluster that `cluster` started, and a way
// to look at it, and to break it, from outside.
#pragma once

#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <memory>
#include <string>
#include <vector>

#include "store/postgres/postgres_store.h"
#include "store/store_suite.h"
#include "support/waiting.h"

namespace pawl::test {

// Empty at first, and dropped at the end.
class TestDatabase {
 public:
  TestDatabase();
  TestDatabase(const TestDatabase&) = delete;
  TestDatabase& operator=(const TestDatabase&) = delete;
  ~TestDatabase();

  const std::string& name() const { return name_; }
  std::string url(const std::string& user = "pawl") const;
  std::string pooled_url() const;
  PostgresOptions options() const;
  std::unique_ptr<PostgresStore> open() const { return std::make_unique<PostgresStore>(options()); }

 private:
  std::string name_;
};

// A connection that knows nothing of pawl.
class Sql {
 public:
  // As the superuser, whom row security does not concern, or as `user`.
  explicit Sql(const TestDatabase& database, const std::string& user = "postgres");
  explicit Sql(const std::string& url);
  // The rows, their columns separated by blanks; throws std::runtime_error.
  std::vector<std::string> rows(const std::string& sql);
  std::string one(const std::string& sql);
  int number(const std::string& sql) { return std::stoi(one(sql)); }

 private:
  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  std::unique_ptr<PGconn, Finish> connection_;
};

// pg_ctl: "stop immediate", "start", "restart fast".
void control_server(const std::string& what);

Frame frame_of(std::vector<RunFold> runs);
inline std::vector<Lost> commit(Store& store, const Frame& frame) { return store.commit({&frame, 1}); }
inline std::vector<Lost> commit(Store& store, RunFold fold) { return commit(store, frame_of({std::move(fold)})); }

std::vector<RunId> ids_of(const std::vector<Lost>& lost);

class PostgresCase : public testing::Test {
 protected:
  TestDatabase database_;
};

}  // namespace pawl::test
