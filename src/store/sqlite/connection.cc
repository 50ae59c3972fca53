#include "store/sqlite/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

namespace pawl::sqlite {
namespace {

// Only another program (a shell, a backup) can hold the file's locks; it is given this long to finish.
constexpr int busy_wait_ms = 5000;

// '?', '#' and '%' mean something in a URI, and a folder may be called anything.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (char c : path) {
    if (c == '?' || c == '#' || c == '%')
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    else
      uri += c;
  }
  return uri + "?immutable=1";
}

}  // namespace

std::string_view advice(int extended_code) {
  if (extended_code == SQLITE_IOERR_FSYNC || extended_code == SQLITE_IOERR_DIR_FSYNC)
    return "The disk did not confirm a write. Nothing since the last answered commit can be relied on: check the "
           "disk and the kernel log, then start again.";
  switch (extended_code & 0xff) {
    case SQLITE_FULL:
      return "The disk or a quota is full. Free some space, then start again; nothing acknowledged is lost.";
    case SQLITE_IOERR:
      return "The disk reported an error. Check the disk and the kernel log, then start again.";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "The file is damaged. Restore the folder from a backup, or recover what is left with "
             "'sqlite3 pawl.db .recover'.";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "Another program holds the database. Close it (a database shell, a backup tool), then start again.";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return "The folder or a file in it may not be written by this user. Check owner, mode and mount options.";
    case SQLITE_CANTOPEN:
      return "Check that the folder exists and that this user may read and write it.";
    case SQLITE_NOMEM:
      return "The process is out of memory.";
    case SQLITE_TOOBIG:
      return "A value is larger than the database takes.";
    default:
      return "This is not expected; please report it with the text above.";
  }
}

namespace {

// SQLite never writes more than a page at a time, and its VFS for Unix takes no more than 128 KiB.
constexpr std::size_t raw_write_bytes_max = std::size_t{64} << 10;

// A file of SQLite's own kind, opened past any connection.
class RawFile {
 public:
  RawFile(sqlite3_vfs& vfs, const char* name, int flags) : bytes_(static_cast<std::size_t>(vfs.szOsFile)), name_(name) {
    check(vfs.xOpen(&vfs, name, file(), flags, nullptr), "cannot open");
  }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;
  ~RawFile() {
    if (file()->pMethods) file()->pMethods->xClose(file());
  }

  void write_over_itself() {
    sqlite3_int64 size = 0;
    check(calls().xFileSize(file(), &size), "cannot read");
    std::vector<char> piece(raw_write_bytes_max);
    for (sqlite3_int64 at = 0; at < size;) {
      int length = static_cast<int>(std::min<sqlite3_int64>(size - at, static_cast<sqlite3_int64>(piece.size())));
      check(calls().xRead(file(), piece.data(), length, at), "cannot read");
      check(calls().xWrite(file(), piece.data(), length, at), "cannot write");
      at += length;
    }
    check(calls().xSync(file(), SQLITE_SYNC_NORMAL), "cannot sync");
  }

 private:
  sqlite3_file* file() { return reinterpret_cast<sqlite3_file*>(bytes_.data()); }
  const sqlite3_io_methods& calls() { return *file()->pMethods; }
  void check(int code, const char* what) const {
    if (code != SQLITE_OK) throw StoreFailure(fmt::format("{} {} (code {}). {}", what, name_, code, advice(code)));
  }

  std::vector<char> bytes_;  // from operator new, hence aligned for anything
  const char* name_;
};

}  // namespace

void rewrite_log(const OpenOptions& options) {
  sqlite3_vfs* vfs = sqlite3_vfs_find(options.vfs.empty() ? nullptr : options.vfs.c_str());
  std::string log = options.path + "-wal";
  int exists = 0;
  if (!vfs || vfs->xAccess(vfs, log.c_str(), SQLITE_ACCESS_EXISTS, &exists) != SQLITE_OK || !exists) return;
  // A VFS may look behind the name for what belongs to it.
  const char* name = sqlite3_create_filename(options.path.c_str(), "", log.c_str(), 0, nullptr);
  if (!name) throw std::bad_alloc();
  std::unique_ptr<const char, decltype(&sqlite3_free_filename)> owned(name, &sqlite3_free_filename);
  RawFile(*vfs, sqlite3_filename_wal(name), SQLITE_OPEN_READWRITE | SQLITE_OPEN_WAL).write_over_itself();
}

Connection::Connection(const OpenOptions& options) : path_(options.path) {
  // Counting every allocation takes a lock that all connections share. Refused, and harmless, once SQLite is in use.
  static const int uncounted = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  (void)uncounted;
  // Every connection is guarded by its owner, so the library's own mutexes would only cost.
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  std::string name = path_;
  if (options.immutable) {
    name = immutable_uri(path_);
    flags |= SQLITE_OPEN_URI;
  }
  const char* vfs = options.vfs.empty() ? nullptr : options.vfs.c_str();
  if (sqlite3_open_v2(name.c_str(), &handle_, flags, vfs) != SQLITE_OK) {
    std::string reason = handle_ ? sqlite3_errmsg(handle_) : "out of memory";
    int code = handle_ ? sqlite3_extended_errcode(handle_) : SQLITE_NOMEM;
    sqlite3_close(handle_);
    throw StoreFailure(fmt::format("cannot open {}: {} (code {}). {}", path_, reason, code, advice(code)));
  }
  sqlite3_busy_timeout(handle_, busy_wait_ms);
}

Connection::~Connection() { sqlite3_close_v2(handle_); }

void Connection::execute(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail(sql);
}

std::int64_t Connection::number(const char* sql) {
  Statement statement(*this, sql);
  auto rows = statement.query();
  return rows.next() ? rows.i64(0) : 0;
}

std::string Connection::text(const char* sql) {
  Statement statement(*this, sql);
  auto rows = statement.query();
  return rows.next() ? rows.text(0) : std::string();
}

void Connection::abandon() { sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr); }

void Connection::copy_to(const std::string& path) {
  Connection to({.path = path, .vfs = {}});
  sqlite3_backup* copying = sqlite3_backup_init(to.handle_, "main", handle_, "main");
  if (!copying) to.fail("cannot begin a copy");
  // In one step, so that it is one moment: in several, a commit in between starts it over.
  sqlite3_backup_step(copying, -1);
  if (sqlite3_backup_finish(copying) != SQLITE_OK) to.fail("cannot copy the database");
}

Connection::Checkpoint Connection::checkpoint(int mode) {
  Checkpoint result;
  int code = sqlite3_wal_checkpoint_v2(handle_, nullptr, mode, &result.wal_pages, &result.done_pages);
  if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) fail("moving the write-ahead log into the database");
  return result;
}

void Connection::fail(std::string_view what) const {
  int code = sqlite3_extended_errcode(handle_);
  std::string reason = sqlite3_errmsg(handle_);
  int system = sqlite3_system_errno(handle_);
  if (system != 0) reason += fmt::format(", {}", std::strerror(system));
  // Where it extends the log's shared memory, SQLite calls a full disk an error of the disk.
  bool full = system == ENOSPC || system == EDQUOT;
  throw StoreFailure(
      fmt::format("{}: {} (code {}) while: {}. {}", path_, reason, code, what, advice(full ? SQLITE_FULL : code)));
}

Cursor::~Cursor() { sqlite3_reset(statement_.raw_); }

bool Cursor::next() { return statement_.step(); }

sqlite3_stmt* Cursor::raw() const { return statement_.raw_; }

std::int64_t Cursor::i64(int column) const { return sqlite3_column_int64(raw(), column); }

bool Cursor::is_null(int column) const { return sqlite3_column_type(raw(), column) == SQLITE_NULL; }
bool Cursor::is_blob(int column) const { return sqlite3_column_type(raw(), column) == SQLITE_BLOB; }

std::string_view Cursor::bytes(int column) const {
  const void* data = sqlite3_column_blob(raw(), column);
  int size = sqlite3_column_bytes(raw(), column);
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

IdBits Cursor::id(int column) const {
  auto stored = bytes(column);
  if (stored.size() != 16) damaged(column);
  IdBits bits;
  for (std::size_t i = 0; i < 8; ++i) {
    bits.high = bits.high << 8 | static_cast<unsigned char>(stored[i]);
    bits.low = bits.low << 8 | static_cast<unsigned char>(stored[8 + i]);
  }
  return bits;
}

Hash Cursor::hash(int column) const {
  auto stored = bytes(column);
  Hash hash;
  if (stored.size() != hash.bytes.size()) damaged(column);
  std::memcpy(hash.bytes.data(), stored.data(), stored.size());
  return hash;
}

void Cursor::damaged(int column) const {
  throw StoreFailure(fmt::format("{}: column {} of a row is damaged, in: {}. {}", statement_.connection_.path(),
                                 sqlite3_column_name(raw(), column), sqlite3_sql(raw()), advice(SQLITE_CORRUPT)));
}

void Statement::prepare() {
  int code = sqlite3_prepare_v3(connection_.handle(), sql_, -1, SQLITE_PREPARE_PERSISTENT, &raw_, nullptr);
  if (code != SQLITE_OK) connection_.fail(sql_);
}

bool Statement::step() {
  switch (sqlite3_step(raw_)) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      break;
  }
  connection_.fail(sql_);
}

void Statement::step_to_end() {
  Cursor end(*this);
  while (end.next()) continue;
}

void Statement::check_bound(int code) {
  if (code != SQLITE_OK) connection_.fail(sql_);
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    statements_.rollback.run();
  } catch (const StoreFailure&) {
    // After a disk error SQLite has rolled back by itself; either way nothing of it is committed.
  }
}

}  // namespace pawl::sqlite
