// What is SQLite's own: the folder and its lock, readers beside the writer, versions, damage, syncs.
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "store/crash_vfs.h"
#include "store/sqlite/sqlite_store.h"
#include "store/store_suite.h"

namespace pawl::test {
namespace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "pawl_store_XXXXXX").string();
    if (!mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::filesystem::path data() const { return path_ / "data"; }

 private:
  std::filesystem::path path_;
};

SqliteOptions options_for(const std::filesystem::path& folder) {
  SqliteOptions options;
  options.folder = folder;
  return options;
}

class FolderHarness : public StoreHarness {
 public:
  std::unique_ptr<Store> open() override { return std::make_unique<SqliteStore>(options_for(folder_.data())); }

 private:
  TemporaryFolder folder_;
};

class CrashDiskHarness : public StoreHarness {
 public:
  std::unique_ptr<Store> open() override {
    SqliteOptions options;
    options.folder = "/data";
    options.vfs = disk_.vfs();
    options.single_connection = true;
    return std::make_unique<SqliteStore>(options);
  }

 private:
  CrashDisk disk_;
};

auto kinds() {
  return testing::Values(StoreKind{"folder", [] { return std::make_unique<FolderHarness>(); }},
                         StoreKind{"crash_disk", [] { return std::make_unique<CrashDiskHarness>(); }});
}
std::string kind_name(const testing::TestParamInfo<StoreKind>& kind) { return kind.param.name; }

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreSuite, kinds(), kind_name);
INSTANTIATE_TEST_SUITE_P(Sqlite, FrameSuite, kinds(), kind_name);

Frame frame_at(Position position, Position folded_before = 0) {
  Frame frame;
  frame.position = position;
  frame.parts = parts_of({StreamKey::of(acme)});
  frame.folded_before = folded_before;
  return frame;
}

Frame run_frame(Position position, std::uint64_t number) {
  Frame frame = frame_at(position);
  frame.runs.push_back(new_run(acme, number, 1));
  return frame;
}

void commit(Store& store, const Frame& frame) { store.commit({&frame, 1}); }

// Changes the database behind the store's back.
void run_sql(const std::filesystem::path& folder, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "pawl.db").c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_close(database);
}

class SqliteFolder : public testing::Test {
 protected:
  SqliteOptions options() { return options_for(folder_.data()); }
  TemporaryFolder folder_;
};

TEST_F(SqliteFolder, a_new_folder_is_for_its_owner_only) {
  SqliteStore store(options());
  struct stat status {};
  ASSERT_EQ(::stat(folder_.data().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(SqliteFolder, deleting_the_lock_file_lets_nobody_else_in) {
  SqliteStore store(options());
  EXPECT_NE(failure_of([&] { SqliteStore second(options()); }).find("already in use"), std::string::npos);
  std::filesystem::remove(folder_.data() / "lock");
  EXPECT_NE(failure_of([&] { SqliteStore second(options()); }).find("already in use"), std::string::npos);
}

TEST_F(SqliteFolder, a_database_that_was_half_made_is_made_anew) {
  std::filesystem::create_directory(folder_.data());
  for (const char* part : {"", "-journal", "-wal", "-shm"})
    std::ofstream(folder_.data() / (std::string("pawl.db.new") + part)) << std::string(10'000, 'x');
  {
    SqliteStore store(options());
    commit(store, run_frame(1, 1));
  }
  EXPECT_EQ(SqliteStore::open_reader(folder_.data())->last_position(), 1u);
  for (const auto& file : std::filesystem::directory_iterator(folder_.data()))
    EXPECT_EQ(file.path().filename().string().find(".new"), std::string::npos) << file.path();
}

TEST_F(SqliteFolder, an_empty_file_is_filled) {
  std::filesystem::create_directory(folder_.data());
  std::ofstream(folder_.data() / "pawl.db");
  SqliteStore store(options());
  commit(store, run_frame(1, 1));
  EXPECT_EQ(store.last_position(), 1u);
}

TEST_F(SqliteFolder, a_log_without_its_database_is_left_alone) {
  {
    SqliteStore store(options());
    commit(store, frame_at(1));
    std::filesystem::copy(folder_.data() / "pawl.db-wal", folder_.data() / "kept");
  }
  std::filesystem::remove(folder_.data() / "pawl.db");
  std::filesystem::rename(folder_.data() / "kept", folder_.data() / "pawl.db-wal");
  auto size = std::filesystem::file_size(folder_.data() / "pawl.db-wal");
  EXPECT_NE(failure_of([&] { SqliteStore store(options()); }).find("Put the database back"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(folder_.data() / "pawl.db-wal"), size);
}

TEST_F(SqliteFolder, a_folder_that_cannot_be_made_is_a_failure) {
  auto options = options_for(folder_.data() / "not" / "there");
  EXPECT_NE(failure_of([&] { SqliteStore store(options); }).find("No such file"), std::string::npos);
}

TEST_F(SqliteFolder, a_second_writer_is_refused_and_told_who_holds_it) {
  auto first = std::make_unique<SqliteStore>(options());
  std::string failure = failure_of([&] { SqliteStore second(options()); });
  EXPECT_NE(failure.find(fmt::format("process {}", ::getpid())), std::string::npos) << failure;
  first.reset();
  EXPECT_EQ(failure_of([&] { SqliteStore third(options()); }), "");
}

TEST_F(SqliteFolder, a_database_of_a_newer_pawl_is_refused) {
  { SqliteStore store(options()); }
  run_sql(folder_.data(), "PRAGMA user_version = 99");
  EXPECT_NE(failure_of([&] { SqliteStore store(options()); }).find("Upgrade pawl"), std::string::npos);
  EXPECT_NE(failure_of([&] { SqliteStore::open_reader(folder_.data()); }).find("Upgrade pawl"), std::string::npos);
}

TEST_F(SqliteFolder, a_database_of_something_else_is_left_alone) {
  std::filesystem::create_directory(folder_.data());
  run_sql(folder_.data(), "CREATE TABLE songs(title)");
  EXPECT_NE(failure_of([&] { SqliteStore store(options()); }).find("not a pawl database"), std::string::npos);
  run_sql(folder_.data(), "SELECT title FROM songs");
}

TEST_F(SqliteFolder, a_file_that_is_no_database_is_a_failure) {
  std::filesystem::create_directory(folder_.data());
  std::ofstream(folder_.data() / "pawl.db") << std::string(10'000, 'x');
  EXPECT_NE(failure_of([&] { SqliteStore store(options()); }).find("damaged"), std::string::npos);
}

TEST_F(SqliteFolder, a_damaged_frame_is_a_failure_that_names_it) {
  {
    SqliteStore store(options());
    commit(store, frame_at(1));
    commit(store, frame_at(2));
  }
  run_sql(folder_.data(), "UPDATE frames SET parts = substr(parts, 1, 40) WHERE position = 2");
  SqliteStore store(options());
  int seen = 0;
  std::string failure = failure_of([&] { store.for_each_frame([&](Position, std::string_view) { ++seen; }); });
  EXPECT_NE(failure.find("frame 2"), std::string::npos) << failure;
  EXPECT_EQ(seen, 1);
}

TEST_F(SqliteFolder, frames_wait_for_the_slowest_follower) {
  SqliteOptions options = options_for(folder_.data());
  options.frame_bytes_kept = 0;
  auto oldest = [](Store& store) { return store.frame_after(0)->position; };
  {
    SqliteStore store(options);
    EXPECT_EQ(store.follow("slow", {}), Position{0});
    EXPECT_EQ(store.follow("quick", {}), Position{0});
    for (Position at = 1; at <= 20; ++at) commit(store, frame_at(at, at));
    store.followed("quick", 19);
    commit(store, frame_at(21, 21));
    store.tidy();
    EXPECT_EQ(oldest(store), 1u);
    store.followed("slow", 7);
    for (int i = 0; i < 5; ++i) store.tidy();
    EXPECT_EQ(oldest(store), 8u);
  }
  SqliteStore store(options);
  commit(store, frame_at(22, 22));
  for (int i = 0; i < 5; ++i) store.tidy();
  EXPECT_EQ(oldest(store), 8u) << "it waits for one who has not come back yet, too";
}

TEST_F(SqliteFolder, frames_wait_for_a_follower_up_to_a_limit) {
  SqliteOptions options = options_for(folder_.data());
  options.frame_bytes_kept = 0;
  const std::size_t frame_bytes = frame_at(1).parts.size();
  options.followed_bytes_max = 10 * frame_bytes;
  SqliteStore store(options);
  EXPECT_EQ(store.follow("gone", {}), Position{0});
  for (Position at = 1; at <= 100; ++at) commit(store, frame_at(at, at));
  EXPECT_EQ(store.frame_after(0)->position, 91u);
  EXPECT_EQ(store.follow("gone", {}), Position{0}) << "it finds that something is missing";
}

TEST_F(SqliteFolder, a_missing_frame_is_a_failure) {
  {
    SqliteStore store(options());
    for (Position at = 1; at <= 3; ++at) commit(store, frame_at(at));
  }
  run_sql(folder_.data(), "DELETE FROM frames WHERE position = 2");
  SqliteStore store(options());
  std::string failure = failure_of([&] { store.for_each_frame([](Position, std::string_view) {}); });
  EXPECT_NE(failure.find("no frame 2"), std::string::npos) << failure;
}

TEST_F(SqliteFolder, damaged_rows_are_failures) {
  {
    SqliteStore store(options());
    commit(store, run_frame(1, 1));
  }
  auto load = [&] {
    SqliteStore store(options());
    store.load(acme, run_id(1));
    store.history(StreamKey::of(acme, run_id(1)));
  };
  EXPECT_EQ(failure_of(load), "");
  run_sql(folder_.data(), "UPDATE runs SET status = 200");
  EXPECT_NE(failure_of(load).find("status"), std::string::npos);
  run_sql(folder_.data(), "UPDATE runs SET status = 1, head = x'00'");
  EXPECT_NE(failure_of(load).find("head"), std::string::npos);
  run_sql(folder_.data(), "UPDATE runs SET head = zeroblob(32), history = 77");
  EXPECT_NE(failure_of(load).find("history"), std::string::npos);
}

TEST_F(SqliteFolder, a_tenant_in_another_format_is_folded_from_its_stream) {
  StreamKey key = StreamKey::of(acme);
  std::string lines;
  append_event(lines, TenantEvent{{5}, {"person:ada"}, TenantCreated{"acme"}});
  lines += '\n';
  append_event(lines, TenantEvent{{6}, {"person:ada"}, WorkspaceSet{{"slow"}, 4}});
  lines += '\n';
  Tenant tenant;
  tenant.id = acme;
  tenant.name = "acme";
  tenant.workspaces[{"slow"}] = 4;
  tenant.seq = 2;
  {
    SqliteStore store(options());
    Frame frame = frame_at(1);
    frame.tenants.push_back({tenant, {key, 1, lines, 2, head_after(key, 2)}});
    commit(store, frame);
  }
  run_sql(folder_.data(), "UPDATE tenants SET state = x'7f'");
  SqliteStore store(options());
  EXPECT_EQ(store.tenants(), std::vector{tenant});
}

// Readers

TEST_F(SqliteFolder, a_reader_sees_what_a_live_writer_commits) {
  SqliteStore store(options());
  commit(store, run_frame(1, 1));
  auto reader = SqliteStore::open_reader(folder_.data());
  EXPECT_TRUE(reader->load(acme, run_id(1)));
  EXPECT_FALSE(reader->load(acme, run_id(2)));
  commit(store, run_frame(2, 2));
  EXPECT_TRUE(reader->load(acme, run_id(2)));
  EXPECT_EQ(describe(*reader), describe(store));
  // It comes and goes without harm to the writer.
  reader.reset();
  commit(store, run_frame(3, 3));
  EXPECT_EQ(store.last_position(), 3u);
}

TEST_F(SqliteFolder, a_view_stays_at_the_moment_of_its_first_look) {
  SqliteStore store(options());
  commit(store, run_frame(1, 1));
  auto view = SqliteStore::open_view(folder_.data());
  std::string before = describe(*view);
  commit(store, run_frame(2, 2));
  EXPECT_FALSE(view->load(acme, run_id(2)));
  EXPECT_EQ(describe(*view), before);
}

TEST_F(SqliteFolder, a_reader_writes_nothing) {
  SqliteStore store(options());
  auto reader = SqliteStore::open_reader(folder_.data());
  Frame frame = frame_at(1);
  EXPECT_NE(failure_of([&] { commit(*reader, frame); }), "");
  EXPECT_NE(failure_of([&] { reader->tidy(); }), "");
}

TEST_F(SqliteFolder, a_reader_of_a_folder_that_is_not_there_fails_and_makes_nothing) {
  EXPECT_NE(failure_of([&] { SqliteStore::open_reader(folder_.data()); }), "");
  EXPECT_FALSE(std::filesystem::exists(folder_.data()));
}

TEST_F(SqliteFolder, a_reader_sees_everything_after_a_clean_close) {
  std::string expected;
  {
    SqliteStore store(options());
    commit(store, run_frame(1, 1));
    expected = describe(store);
  }
  EXPECT_EQ(describe(*SqliteStore::open_reader(folder_.data())), expected);
  SqliteStore store(options());
  EXPECT_EQ(describe(store), expected);
}

TEST_F(SqliteFolder, a_reader_of_a_folder_that_may_not_be_written_sees_everything) {
  std::string expected;
  {
    SqliteStore store(options());
    commit(store, run_frame(1, 1));
    expected = describe(store);
  }
  std::filesystem::permissions(folder_.data(), std::filesystem::perms(0500));
  EXPECT_EQ(describe(*SqliteStore::open_reader(folder_.data())), expected);
  std::filesystem::permissions(folder_.data(), std::filesystem::perms(0700));
}

TEST_F(SqliteFolder, what_a_killed_process_committed_is_seen_by_readers_and_by_the_next_writer) {
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    SqliteStore store(options());
    commit(store, run_frame(1, 1));
    commit(store, run_frame(2, 2));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));

  std::string seen;
  for (int look = 0; look < 2; ++look) {
    auto reader = SqliteStore::open_reader(folder_.data());
    EXPECT_EQ(reader->last_position(), 2u);
    EXPECT_TRUE(reader->load(acme, run_id(2)));
    seen = describe(*reader);
  }
  EXPECT_GT(std::filesystem::file_size(folder_.data() / "pawl.db-wal"), 0u) << "a visitor leaves the log as it is";
  SqliteStore store(options());
  EXPECT_EQ(describe(store), seen);
}

// Damage in the log

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_content(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// What a process that was killed after `commits` commits left.
class KilledFolder : public SqliteFolder {
 protected:
  void leave(Position commits) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      SqliteStore store(options());
      for (Position at = 1; at <= commits; ++at) commit(store, run_frame(at, at));
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    for (const char* name : names) left_[name] = content_of(folder_.data() / name);
  }
  void put_back() {
    for (const char* name : names) write_content(folder_.data() / name, left_[name]);
  }
  // Empty when it opens.
  std::string refusal() {
    try {
      SqliteStore store(options());
      return {};
    } catch (const StoreFailure& failure) {
      return failure.what();
    }
  }
  void flip(std::size_t bit) {
    std::string damaged = left_["pawl.db-wal"];
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    write_content(folder_.data() / "pawl.db-wal", damaged);
  }

  static constexpr std::array names = {"pawl.db", "pawl.db-wal", "pawl.db-shm"};
  std::map<std::string, std::string> left_;
};

TEST_F(KilledFolder, a_single_bit_of_the_log_that_is_wrong_stops_the_start) {
  leave(5);
  const std::size_t bits = left_["pawl.db-wal"].size() * 8;
  ASSERT_GT(bits, 0u);
  for (std::size_t bit = 0; bit < bits; bit += bits / 97) {
    put_back();
    flip(bit);
    EXPECT_NE(refusal().find("the log is damaged"), std::string::npos) << "bit " << bit << " of " << bits;
  }
  put_back();
  EXPECT_EQ(refusal(), "");
}

TEST_F(KilledFolder, without_shared_memory_damage_before_the_newest_commit_is_found) {
  leave(5);
  const std::size_t early = (32 + 24 + 4000) * 8;
  put_back();
  std::filesystem::remove(folder_.data() / "pawl.db-shm");
  flip(early);
  EXPECT_NE(refusal().find("frame 1 of the log is damaged"), std::string::npos) << refusal();
}

TEST_F(KilledFolder, a_commit_that_a_power_failure_cut_off_is_dropped) {
  leave(5);
  put_back();
  std::filesystem::remove(folder_.data() / "pawl.db-shm");
  const std::string& log = left_["pawl.db-wal"];
  write_content(folder_.data() / "pawl.db-wal", log.substr(0, log.size() - 100));
  EXPECT_EQ(refusal(), "");
}

// Who may read it

class UsualUmask {
 public:
  explicit UsualUmask(::mode_t mask) : before_(::umask(mask)) {}
  UsualUmask(const UsualUmask&) = delete;
  UsualUmask& operator=(const UsualUmask&) = delete;
  ~UsualUmask() { ::umask(before_); }

 private:
  ::mode_t before_;
};

unsigned mode_of(const std::filesystem::path& path) {
  struct ::stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : 01000;
}

TEST_F(SqliteFolder, files_are_their_owners_only_whatever_the_umask) {
  UsualUmask none(0);
  SqliteStore store(options());
  commit(store, run_frame(1, 1));
  EXPECT_EQ(mode_of(folder_.data()), 0700u);
  for (const auto& entry : std::filesystem::directory_iterator(folder_.data()))
    EXPECT_EQ(mode_of(entry.path()), 0600u) << entry.path();
  EXPECT_EQ(mode_of(folder_.data() / "pawl.db-wal"), 0600u);
}

TEST_F(SqliteFolder, what_others_may_use_is_closed_to_them_when_it_is_opened) {
  UsualUmask none(0);
  namespace fs = std::filesystem;
  {
    SqliteStore store(options());
  }
  const fs::path data = folder_.data(), elsewhere = data.parent_path() / "elsewhere";
  for (const fs::path& folder : {data / "evidence" / "acme", data / "logs", data / "workspaces" / "run"})
    fs::create_directories(folder);
  for (const fs::path& file : {data / "secret", data / "admin.key", data / "server.json", data / "pawl.yaml",
                               data / "pawl.db-wal", data / "evidence" / "acme" / "run.zip", data / "notes of somebody",
                               data / "workspaces" / "run" / "program", elsewhere}) {
    std::ofstream(file).flush();
    fs::permissions(file, fs::perms(0777));
  }
  fs::remove(data / "pawl.db-wal");
  fs::create_symlink(elsewhere, data / "agents");
  for (const char* name : {"pawl.db", "lock"}) fs::permissions(data / name, fs::perms(0666));
  fs::permissions(data, fs::perms(0755));
  { SqliteStore store(options()); }
  EXPECT_EQ(mode_of(data), 0700u);
  for (const char* name : {"pawl.db", "lock"}) EXPECT_EQ(mode_of(data / name), 0600u) << name;
  for (const char* name : {"secret", "admin.key", "server.json", "pawl.yaml", "evidence", "evidence/acme",
                           "evidence/acme/run.zip", "logs", "workspaces"})
    EXPECT_EQ(mode_of(data / name) & 077, 0u) << name;
  EXPECT_EQ(mode_of(data / "workspaces" / "run" / "program"), 0777u) << "a step made it, in a folder that is closed";
  EXPECT_EQ(mode_of(data / "notes of somebody"), 0777u) << "not pawl's";
  EXPECT_EQ(mode_of(elsewhere), 0777u) << "a link is not followed";
}

// The log

TEST_F(SqliteFolder, the_log_starts_over_although_someone_reads_all_the_time) {
  auto small = options();
  small.wal_bytes_max = 1 << 20;
  small.frame_bytes_kept = 0;
  SqliteStore store(small);
  for (Position at = 1; at <= 400; ++at) {
    Frame frame = run_frame(at, at);
    append_part(frame.parts, {StreamKey::of(acme), 1, std::string(30'000, 'x')});
    frame.folded_before = at;
    commit(store, frame);
    EXPECT_TRUE(store.load(acme, run_id(at)));
  }
  EXPECT_LE(std::filesystem::file_size(folder_.data() / "pawl.db-wal"), 4u << 20);
  EXPECT_LT(std::filesystem::file_size(folder_.data() / "pawl.db"), 2u << 20)
      << "pruned frames leave room for new ones";
}

TEST_F(SqliteFolder, a_run_whose_row_is_gone_is_a_failure_of_the_store) {
  SqliteStore store(options());
  Frame frame = run_frame(1, 1);
  frame.runs[0].is_new = false;
  EXPECT_NE(failure_of([&] { commit(store, frame); }).find("Another program has changed the database"),
            std::string::npos);
}

TEST_F(SqliteFolder, a_gap_in_the_journal_or_in_a_stream_stops_the_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // A process that dies leaves its folder behind, so it makes it inside this one's.
  const std::string usual = std::filesystem::temp_directory_path();
  ::setenv("TMPDIR", folder_.data().parent_path().c_str(), 1);
  auto with_gap = [&](Frame frame) {
    SqliteStore store(options());
    commit(store, frame);
  };
  EXPECT_DEATH(with_gap(frame_at(2)), "without gaps");
  Frame frame = run_frame(1, 1);
  frame.runs[0].history.first_seq = 2;
  EXPECT_DEATH(with_gap(frame), "no gaps");
  frame = run_frame(1, 1);
  frame.runs[0].is_new = false;
  ::setenv("TMPDIR", usual.c_str(), 1);
}

}  // namespace
}  // namespace pawl::test
