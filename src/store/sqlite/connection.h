// A thin, owning layer over sqlite3: a connection, its prepared statements, a transaction that rolls back unless it
// is committed. Every error leaves as a StoreFailure that says what failed, where, and what to do about it.
//
// Nothing here locks: a connection and its statements belong to one thread at a time.
#pragma once

#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/chain.h"
#include "core/id.h"
#include "core/time.h"
#include "store/store.h"

namespace pawl::sqlite {

struct OpenOptions {
  std::string path;
  std::string vfs;         // empty = the operating system's
  bool read_only = false;  // the file must exist
  bool immutable = false;  // nobody can write it: no locks, no -wal, no -shm
};

class Connection {
 public:
  explicit Connection(const OpenOptions& options);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // One or more statements without parameters or results.
  void execute(const char* sql);
  // The first column of the first row; for PRAGMAs.
  std::int64_t number(const char* sql);
  std::string text(const char* sql);

  // What was last written may not be on disk: closing must not build on it by checkpointing.
  void abandon();

  struct Checkpoint {
    int wal_pages = 0;
    int done_pages = 0;  // of these, how many are in the database file now
    bool complete() const { return done_pages == wal_pages; }
  };
  // `mode` is SQLITE_CHECKPOINT_PASSIVE and so on. A reader in the way is no error: then less is done.
  Checkpoint checkpoint(int mode);

  // All pages as they are at one moment, into a new database.
  void copy_to(const std::string& path);

  // Rows that the last statement inserted, updated or deleted.
  int changes() const { return sqlite3_changes(handle_); }
  std::int64_t last_number() const { return sqlite3_last_insert_rowid(handle_); }
  sqlite3* handle() const { return handle_; }
  const std::string& path() const { return path_; }

  [[noreturn]] void fail(std::string_view what) const;

 private:
  sqlite3* handle_ = nullptr;
  std::string path_;
};

// Writes a log that a dead process left over itself and syncs it. After a failed sync the kernel shows bytes that the
// disk never got, and no later sync writes them: whoever built on them would lose them, or worse, half of them, with
// the next power failure. Before the database is opened.
void rewrite_log(const OpenOptions& options);

// What an extended result code means to the one who is on call.
std::string_view advice(int extended_code);

// Bytes that are bound as a BLOB; a plain std::string_view is bound as TEXT.
struct Blob {
  std::string_view bytes;
};

// An id as a key: big-endian, so that keys sort by time.
struct IdBytes {
  std::array<unsigned char, 16> bytes;

  explicit IdBytes(IdBits bits) {
    for (unsigned i = 0; i < 8; ++i) {
      bytes[i] = static_cast<unsigned char>(bits.high >> (56 - 8 * i));
      bytes[8 + i] = static_cast<unsigned char>(bits.low >> (56 - 8 * i));
    }
  }
  // Valid as long as this is.
  Blob blob() const { return {{reinterpret_cast<const char*>(bytes.data()), bytes.size()}}; }
};

class Statement;

// The rows of one execution. Ends the execution when it goes out of scope.
class Cursor {
 public:
  explicit Cursor(Statement& statement) : statement_(statement) {}
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  ~Cursor();

  bool next();

  // Views are valid until the next call of next().
  std::int64_t i64(int column) const;
  std::uint64_t u64(int column) const { return static_cast<std::uint64_t>(i64(column)); }
  int i32(int column) const { return static_cast<int>(i64(column)); }
  bool flag(int column) const { return i64(column) != 0; }
  bool is_null(int column) const;
  bool is_blob(int column) const;
  std::string_view bytes(int column) const;
  std::string text(int column) const { return std::string(bytes(column)); }
  Instant instant(int column) const { return {i64(column)}; }
  IdBits id(int column) const;
  Hash hash(int column) const;
  // A stored enumerator; a number the enum does not have means damage.
  template <class Enum>
  Enum enumerator(int column) const {
    auto value = u64(column);
    if (value >= enum_count<Enum>) damaged(column);
    return static_cast<Enum>(value);
  }

 private:
  [[noreturn]] void damaged(int column) const;
  sqlite3_stmt* raw() const;

  Statement& statement_;
};

// Prepared on first use, then kept. Bytes are bound without copying: what is passed to query() must outlive the
// cursor, so ids that are temporaries are refused; what is passed to run() is needed during the call only.
class Statement {
 public:
  // `sql` is a literal, or lives as long as the statement.
  Statement(Connection& connection, const char* sql) : connection_(connection), sql_(sql) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(raw_); }

  template <class... Args>
  [[nodiscard]] Cursor query(Args&&... args) {
    static_assert((outlives_the_call<Args> && ...), "name the id: the cursor needs its bytes");
    bind_all(args...);
    return Cursor(*this);
  }

  template <class... Args>
  void run(const Args&... args) {
    bind_all(args...);
    step_to_end();
  }

 private:
  friend class Cursor;

  template <class Arg>
  static constexpr bool outlives_the_call =
      std::is_lvalue_reference_v<Arg> ||
      !(std::is_same_v<std::remove_cvref_t<Arg>, IdBytes> || std::is_same_v<std::remove_cvref_t<Arg>, std::string>);

  template <class... Args>
  void bind_all(const Args&... args) {
    if (!raw_) prepare();
    int index = 0;
    (bind(++index, args), ...);
  }

  void prepare();
  bool step();
  void step_to_end();
  void check_bound(int code);

  void bind(int index, std::int64_t value) { check_bound(sqlite3_bind_int64(raw_, index, value)); }
  void bind(int index, std::uint64_t value) { bind(index, static_cast<std::int64_t>(value)); }
  void bind(int index, int value) { bind(index, static_cast<std::int64_t>(value)); }
  void bind(int index, Instant value) { bind(index, value.ms); }
  void bind(int index, std::nullopt_t) { check_bound(sqlite3_bind_null(raw_, index)); }
  void bind(int index, Blob value) {
    // A null pointer would bind NULL, and an empty text is not that.
    const char* data = value.bytes.data() ? value.bytes.data() : "";
    check_bound(sqlite3_bind_blob64(raw_, index, data, value.bytes.size(), SQLITE_STATIC));
  }
  void bind(int index, const IdBytes& value) {
    check_bound(sqlite3_bind_blob(raw_, index, value.bytes.data(), 16, SQLITE_STATIC));
  }
  void bind(int index, std::string_view value) {
    const char* data = value.data() ? value.data() : "";
    check_bound(sqlite3_bind_text64(raw_, index, data, value.size(), SQLITE_STATIC, SQLITE_UTF8));
  }
  template <class Value>
  void bind(int index, const std::optional<Value>& value) {
    value ? bind(index, *value) : bind(index, std::nullopt);
  }

  Connection& connection_;
  const char* sql_;
  sqlite3_stmt* raw_ = nullptr;
};

// Takes the write lock at once: a transaction that starts as a reader could find itself unable to write.
class Transaction {
 public:
  struct Statements {
    explicit Statements(Connection& connection)
        : begin(connection, "BEGIN IMMEDIATE"), commit(connection, "COMMIT"), rollback(connection, "ROLLBACK") {}
    Statement begin;
    Statement commit;
    Statement rollback;
  };

  explicit Transaction(Statements& statements) : statements_(statements) { statements_.begin.run(); }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();

  void commit() {
    statements_.commit.run();
    open_ = false;
  }

 private:
  Statements& statements_;
  bool open_ = true;
};

}  // namespace pawl::sqlite
