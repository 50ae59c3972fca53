#include "store/postgres/database.h"

#include <fmt/format.h>

#include <algorithm>

#include "store/store.h"

namespace pawl::postgres {
namespace {

constexpr std::int64_t first_wait_ms = 50, wait_ms_max = 2000;
// An answer that took longer says too little about the clock.
constexpr auto clock_trip_max = std::chrono::milliseconds(500);

std::int64_t steady_ms(Deadline at) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

// Wrong from the start: name, password, database. Once it has worked it may be right again soon.
bool is_hopeless(std::string_view state) { return state.starts_with("28") || state == "3D000" || state == "42501"; }

// What an SQLSTATE means to the one who is on call.
std::string_view advice(std::string_view state) {
  if (state == "42501")
    return "Give pawl's role the rights it had when the tables were made: it should own schema pawl.";
  if (state == "42883" || state == "42704" || state == "3F000" || state == "42P01" || state == "42703" ||
      state == "42804")
    return "The tables are not those of this pawl: were they changed or removed, or migrated by a newer one? Start "
           "that one.";
  if (state.starts_with("XX")) return "The database is damaged. Keep a copy and restore a backup.";
  return "This is a bug in pawl, or somebody changed its tables.";
}

}  // namespace

void Database::note_lost(const std::string& reason) {
  if (reachable_.exchange(false) && report_) report_(reason);
}

void Database::note_reached() {
  if (!reachable_.load(std::memory_order_relaxed) && !reachable_.exchange(true) && report_)
    report_(fmt::format("{} is back", address.str()));
}

void Database::stop_waiting() {
  std::lock_guard lock(mutex_);
  given_up_ = true;
  stopped_.notify_all();
}

void Database::wait_before_retry(int tries, std::optional<Deadline> deadline, const std::string& reason) {
  std::unique_lock lock(mutex_);
  auto longest = std::min(first_wait_ms << std::min(tries, 6), wait_ms_max);
  auto until = std::chrono::steady_clock::now() +
               std::chrono::milliseconds(std::uniform_int_distribution(longest / 2, longest)(random_));
  bool too_late = deadline && until > *deadline;
  if (given_up_ || too_late || stopped_.wait_until(lock, until, [&] { return given_up_.load(); }))
    throw StoreFailure(reason);
}

void Database::pause(Deadline until) {
  std::unique_lock lock(mutex_);
  stopped_.wait_until(lock, until, [&] { return given_up_.load(); });
}

Instant Database::now() {
  std::int64_t at = steady_ms(std::chrono::steady_clock::now()) + offset_ms_.load(std::memory_order_relaxed);
  std::int64_t latest = latest_ms_.load(std::memory_order_relaxed);
  while (at > latest && !latest_ms_.compare_exchange_weak(latest, at, std::memory_order_relaxed)) continue;
  return {std::max(at, latest)};
}

void Database::learn_time(Instant at, Deadline asked) {
  auto answered = std::chrono::steady_clock::now();
  if (answered - asked > clock_trip_max && offset_ms_ != 0) return;
  offset_ms_ = at.ms - steady_ms(asked + (answered - asked) / 2);
}

Connection& Link::connection(std::optional<Deadline> deadline, const Greet& greet) {
  for (int tries = 0; !connection_; ++tries) {
    std::string reason;
    try {
      auto fresh = std::make_unique<Connection>(database_.address, database_.given_up());
      if (database_.one_moment) fresh->script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      if (greet) greet(*fresh);
      connection_ = std::move(fresh);
      return *connection_;
    } catch (const ConnectionLost& lost) {
      reason = lost.what();
      if (deadline && is_hopeless(lost.state())) throw StoreFailure(reason);
    } catch (const Refused& refused) {
      if (!refused.is_temporary()) throw_failure(refused);
      reason = refused.what();
    }
    database_.note_lost(reason);
    database_.wait_before_retry(tries, deadline, reason);
  }
  return *connection_;
}

bool Link::after(const Refused& refused) {
  if (!refused.is_temporary() || database_.one_moment) return false;
  // A standby refuses to write for ever; the primary may be at another of the addresses.
  if (refused.state() == "25006") drop();
  if (!refused.state().starts_with("40")) database_.note_lost(refused.what());
  return true;
}

void Link::throw_failure(const Refused& refused) {
  throw StoreFailure(fmt::format("{}. {}", refused.what(), advice(refused.state())));
}

void Link::throw_failure(const ConnectionLost& lost) {
  throw StoreFailure(fmt::format("{}. What was being read is gone with the connection: start again", lost.what()));
}

}  // namespace pawl::postgres
