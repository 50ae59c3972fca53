#include "store/crash_vfs.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <string_view>

#include "core/invariant.h"

namespace pawl::test {
namespace {

constexpr std::size_t sector_bytes = 512;
constexpr int path_chars_max = 512;

struct Handle {
  sqlite3_file base;  // first: SQLite sees only this
  CrashDisk* disk;
  void* file;  // a std::shared_ptr to the file, on the heap: handles are raw memory
};

}  // namespace

struct CrashCalls {
  using File = CrashDisk::File;

  static CrashDisk& disk_of(sqlite3_vfs* vfs) { return *static_cast<CrashDisk*>(vfs->pAppData); }
  static Handle& handle(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }
  static CrashDisk& disk_of(sqlite3_file* file) { return *handle(file).disk; }
  static File& file_of(sqlite3_file* file) { return **static_cast<std::shared_ptr<File>*>(handle(file).file); }

  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* out, int flags, int* out_flags) {
    CrashDisk& disk = disk_of(vfs);
    out->pMethods = nullptr;
    if (disk.killed()) return SQLITE_IOERR;
    std::shared_ptr<File> file;
    auto known = name ? disk.files_.find(std::string_view(name)) : disk.files_.end();
    if (known != disk.files_.end()) {
      file = known->second;
    } else {
      if (!(flags & SQLITE_OPEN_CREATE)) return SQLITE_CANTOPEN;
      if (!disk.count_call()) return SQLITE_IOERR;
      file = std::make_shared<File>();
      if (name) disk.files_.emplace(name, file);
    }
    auto* opened = new (out) Handle;
    opened->base.pMethods = &methods;
    opened->disk = &disk;
    opened->file = new std::shared_ptr<File>(std::move(file));
    ++disk.open_files_;
    if (out_flags) *out_flags = flags;
    return SQLITE_OK;
  }

  static int close(sqlite3_file* file) {
    --disk_of(file).open_files_;
    delete static_cast<std::shared_ptr<File>*>(handle(file).file);
    return SQLITE_OK;
  }

  static int read(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
    if (disk_of(file).killed()) return SQLITE_IOERR_READ;
    const std::string& content = file_of(file).cached;
    auto begin = std::min(static_cast<std::size_t>(offset), content.size());
    auto wanted = static_cast<std::size_t>(size);
    auto found = std::min(wanted, content.size() - begin);
    std::memcpy(out, content.data() + begin, found);
    if (found == wanted) return SQLITE_OK;
    std::memset(static_cast<char*>(out) + found, 0, wanted - found);
    return SQLITE_IOERR_SHORT_READ;
  }

  static int write(sqlite3_file* file, const void* in, int size, sqlite3_int64 offset) {
    CrashDisk& disk = disk_of(file);
    if (disk.killed()) return SQLITE_IOERR_WRITE;
    std::string_view bytes(static_cast<const char*>(in), static_cast<std::size_t>(size));
    bool alive = disk.count_call();
    if (++disk.writes_ == disk.failing_write_) return SQLITE_FULL;
    // One that was under way when the process died may land as well.
    disk.write(file_of(file), bytes, static_cast<std::size_t>(offset));
    return alive ? SQLITE_OK : SQLITE_IOERR_WRITE;
  }

  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    CrashDisk& disk = disk_of(file);
    if (disk.killed() || !disk.count_call()) return SQLITE_IOERR_TRUNCATE;
    File& target = file_of(file);
    CrashDisk::Change change{.truncates = true, .offset = static_cast<std::size_t>(size), .bytes = {}};
    CrashDisk::apply(target.cached, change, 0, 0);
    target.unsynced.push_back(std::move(change));
    return SQLITE_OK;
  }

  static int sync(sqlite3_file* file, int) {
    CrashDisk& disk = disk_of(file);
    if (disk.killed() || !disk.count_call()) return SQLITE_IOERR_FSYNC;
    if (++disk.syncs_ == disk.failing_sync_) {
      disk.lose_sync(file_of(file));
      return SQLITE_IOERR_FSYNC;
    }
    disk.sync(file_of(file));
    return SQLITE_OK;
  }

  static int file_size(sqlite3_file* file, sqlite3_int64* size) {
    if (disk_of(file).killed()) return SQLITE_IOERR_FSTAT;
    *size = static_cast<sqlite3_int64>(file_of(file).cached.size());
    return SQLITE_OK;
  }

  static int remove(sqlite3_vfs* vfs, const char* name, int) {
    CrashDisk& disk = disk_of(vfs);
    if (disk.killed() || !disk.count_call()) return SQLITE_IOERR_DELETE;
    auto known = disk.files_.find(std::string_view(name));
    if (known == disk.files_.end()) return SQLITE_IOERR_DELETE_NOENT;
    if (known->second->named_durably) disk.removed_[known->first] = known->second;
    disk.files_.erase(known);
    return SQLITE_OK;
  }

  static int access(sqlite3_vfs* vfs, const char* name, int, int* exists) {
    if (disk_of(vfs).killed()) return SQLITE_IOERR_ACCESS;
    *exists = disk_of(vfs).files_.contains(std::string_view(name)) ? 1 : 0;
    return SQLITE_OK;
  }

  static int full_path(sqlite3_vfs*, const char* name, int size, char* out) {
    sqlite3_snprintf(size, out, "%s", name);
    return SQLITE_OK;
  }

  static int randomness(sqlite3_vfs* vfs, int size, char* out) {
    for (int i = 0; i < size; ++i) out[i] = static_cast<char>(disk_of(vfs).random_());
    return size;
  }

  static int sleep(sqlite3_vfs*, int microseconds) { return microseconds; }
  static int current_time(sqlite3_vfs*, double* julian_day) {
    *julian_day = 2460000.5;
    return SQLITE_OK;
  }
  static int last_error(sqlite3_vfs*, int, char*) { return 0; }

  static int lock(sqlite3_file*, int) { return SQLITE_OK; }
  static int reserved_lock(sqlite3_file*, int* held) {
    *held = 0;
    return SQLITE_OK;
  }
  static int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  // As the operating system's own VFS has it.
  static int sector_size(sqlite3_file*) { return 4096; }
  static int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

  static const sqlite3_io_methods methods;
};

const sqlite3_io_methods CrashCalls::methods = [] {
  sqlite3_io_methods calls{};
  calls.iVersion = 1;
  calls.xClose = CrashCalls::close;
  calls.xRead = CrashCalls::read;
  calls.xWrite = CrashCalls::write;
  calls.xTruncate = CrashCalls::truncate;
  calls.xSync = CrashCalls::sync;
  calls.xFileSize = CrashCalls::file_size;
  calls.xLock = CrashCalls::lock;
  calls.xUnlock = CrashCalls::lock;
  calls.xCheckReservedLock = CrashCalls::reserved_lock;
  calls.xFileControl = CrashCalls::control;
  calls.xSectorSize = CrashCalls::sector_size;
  calls.xDeviceCharacteristics = CrashCalls::characteristics;
  return calls;
}();

CrashDisk::CrashDisk(std::uint64_t seed, const Image& image) : table_(new sqlite3_vfs{}), random_(seed) {
  static std::atomic<std::uint64_t> disks = 0;
  name_ = "crash_disk_" + std::to_string(++disks);
  for (const auto& [name, content] : image) {
    auto file = std::make_shared<File>();
    file->cached = file->durable = content;
    file->named_durably = true;
    files_.emplace(name, std::move(file));
  }
  table_->iVersion = 1;
  table_->szOsFile = sizeof(Handle);
  table_->mxPathname = path_chars_max;
  table_->zName = name_.c_str();
  table_->pAppData = this;
  table_->xOpen = CrashCalls::open;
  table_->xDelete = CrashCalls::remove;
  table_->xAccess = CrashCalls::access;
  table_->xFullPathname = CrashCalls::full_path;
  table_->xRandomness = CrashCalls::randomness;
  table_->xSleep = CrashCalls::sleep;
  table_->xCurrentTime = CrashCalls::current_time;
  table_->xGetLastError = CrashCalls::last_error;
  invariant(sqlite3_vfs_register(table_.get(), 0) == SQLITE_OK, "SQLite takes the disk");
}

CrashDisk::~CrashDisk() {
  invariant(open_files_ == 0, "a disk outlives what is open on it");
  sqlite3_vfs_unregister(table_.get());
}

bool CrashDisk::count_call() { return ++calls_ != killing_call_; }

void CrashDisk::apply(std::string& content, const Change& change, std::size_t from, std::size_t size) {
  if (change.truncates) {
    if (content.size() > change.offset) content.resize(change.offset);
    return;
  }
  if (content.size() < change.offset + from + size) content.resize(change.offset + from + size);
  std::memcpy(content.data() + change.offset + from, change.bytes.data() + from, size);
}

void CrashDisk::write(File& file, std::string_view bytes, std::size_t offset) {
  bytes_written_ += bytes.size();
  file.unsynced.push_back({.truncates = false, .offset = offset, .bytes = std::string(bytes)});
  apply(file.cached, file.unsynced.back(), 0, bytes.size());
}

void CrashDisk::sync(File& file) {
  for (const Change& change : file.unsynced) apply(file.durable, change, 0, change.bytes.size());
  file.unsynced.clear();
  if (file.named_durably) return;
  // SQLite syncs the directory with the first sync of a log, which settles everything about names.
  for (auto& [name, named] : files_) named->named_durably = true;
  removed_.clear();
}

void CrashDisk::lose_sync(File& file) { settle(file, Fate::torn, random_); }

void CrashDisk::settle(File& file, Fate fate, std::mt19937_64& random) {
  for (const Change& change : file.unsynced) {
    if (fate == Fate::lost) break;
    if (fate == Fate::landed || change.truncates) {
      if (fate == Fate::landed || random() % 2 == 0) apply(file.durable, change, 0, change.bytes.size());
      continue;
    }
    for (std::size_t from = 0; from < change.bytes.size();) {
      std::size_t end = (change.offset + from) / sector_bytes * sector_bytes + sector_bytes - change.offset;
      end = std::min(end, change.bytes.size());
      if (random() % 2 == 0) apply(file.durable, change, from, end - from);
      from = end;
    }
  }
  file.unsynced.clear();
}

void CrashDisk::crash(std::uint64_t seed) {
  invariant(open_files_ == 0, "a process that lost its disk has nothing open");
  std::mt19937_64 random(seed);
  auto fate = static_cast<Fate>(random() % 3);
  Files left;
  for (auto& [name, file] : files_) {
    bool keeps_name = file->named_durably || fate == Fate::landed || (fate == Fate::torn && random() % 2 == 0);
    settle(*file, fate, random);
    if (keeps_name) left.emplace(name, file);
  }
  // A deletion that was not yet durable may not have happened, unless a new file has the name.
  for (auto& [name, file] : removed_)
    if (fate != Fate::landed && !left.contains(name) && (fate == Fate::lost || random() % 2 == 0)) {
      settle(*file, fate, random);
      left.emplace(name, file);
    }
  for (auto& [name, file] : left) {
    file->cached = file->durable;
    file->named_durably = true;
  }
  files_ = std::move(left);
  removed_.clear();
  restart();
}

void CrashDisk::restart() {
  invariant(open_files_ == 0, "a process that died has nothing open");
  failing_write_ = failing_sync_ = killing_call_ = 0;
}

CrashDisk::Image CrashDisk::image() const {
  Image image;
  for (const auto& [name, file] : files_) image[name] = file->cached;
  return image;
}

CrashDisk::Image CrashDisk::durable_image() const {
  Image image;
  for (const auto& [name, file] : files_)
    if (file->named_durably) image[name] = file->durable;
  return image;
}

}  // namespace pawl::test
