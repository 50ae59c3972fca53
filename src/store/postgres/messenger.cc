#include "store/postgres/messenger.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "store/postgres/news_wire.h"
#include "store/postgres/statements.h"

namespace pawl::postgres {
namespace {

// An idle server makes one commit in so long, and hardly any other.
constexpr auto look_every = std::chrono::milliseconds(1200);
constexpr auto look_every_unheard = std::chrono::milliseconds(100);
constexpr std::int64_t is_looking_ms = 4000;
constexpr std::int64_t silence_ms_max = 3000;
// A timer that nobody acted on for this long is anybody's, as in engine_shared.cc.
constexpr Duration overdue_after = std::chrono::seconds(3);
// Leases inside of a server that was not seen for this long have ended anyway.
constexpr Duration lately = 2 * local_lease_max;
constexpr const char* notify = "SELECT pg_notify('pawl', m) FROM unnest($1::text[]) m";

std::int64_t steady_ms() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

void add(News& to, const News& news) {
  to.ready |= news.ready;
  to.events |= news.events;
  for (TenantId tenant : news.tenants)
    if (std::ranges::find(to.tenants, tenant) == to.tenants.end()) to.tenants.push_back(tenant);
  to.runs.insert(to.runs.end(), news.runs.begin(), news.runs.end());
}

}  // namespace

Messenger::Messenger(Database& database, std::uint32_t server)
    : database_(database), server_(server), link_(database), wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_fd_ < 0) throw StoreFailure("no file descriptor is left: raise the limit (ulimit -n)");
}

Messenger::~Messenger() { ::close(wake_fd_); }

void Messenger::listen(Connection& connection) {
  missed_ = true;
  next_look_ = {};
  hears_ = connection.has_session();
  if (hears_) connection.script("LISTEN pawl");
}

News Messenger::wait(Duration at_most) {
  auto deadline = std::chrono::steady_clock::now() + at_most;
  News news;
  try {
    if (!link_.is_open() && asking_since_ms_ == 0) asking_since_ms_ = steady_ms();
    Connection& connection = link_.connection(deadline, [&](Connection& fresh) { listen(fresh); });
    while (true) {
      send_told(connection);
      if (std::chrono::steady_clock::now() >= next_look_) look(connection, news);
      while (std::unique_ptr<PGnotify, decltype(&PQfreemem)> heard{PQnotifies(connection.handle()), &PQfreemem})
        read_news(heard->extra, server_, news);
      if (std::exchange(missed_, false)) news.ready = news.events = news.overdue = news.any_tenant = true;
      if (!news.empty() || std::chrono::steady_clock::now() >= deadline || database_.given_up()) break;
      connection.wait_readable(wake_fd_, std::min(deadline, next_look_));
    }
    database_.note_reached();
  } catch (const ConnectionLost&) {
    link_.drop();  // the next call tells whether the database is away
  } catch (const Refused& refused) {
    link_.drop();
    database_.note_lost(refused.what());
  } catch (const StoreFailure&) {
    // It is not there; the next call goes on trying.
    database_.pause(deadline);
  }
  return news;
}

void Messenger::tell(const News& news, std::optional<std::uint32_t> server) {
  if (news.empty()) return;
  {
    std::lock_guard lock(mutex_);
    add(told_[server], news);
  }
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(wake_fd_, &one, sizeof one);
}

// What could not be sent is told with the next connection.
void Messenger::send_told(Connection& connection) {
  std::uint64_t count = 0;
  [[maybe_unused]] auto read = ::read(wake_fd_, &count, sizeof count);
  Told told;
  {
    std::lock_guard lock(mutex_);
    told = std::exchange(told_, {});
  }
  if (told.empty()) return;
  std::vector<std::string> messages;
  for (const auto& [server, news] : told)
    for (std::string& message : print_news(news, server_, server)) messages.push_back(std::move(message));
  try {
    connection.call(notify, Values().texts(messages));
  } catch (...) {
    std::lock_guard lock(mutex_);
    for (const auto& [server, news] : told) add(told_[server], news);
    throw;
  }
}

void Messenger::look(Connection& connection, News& news) {
  auto asked = std::chrono::steady_clock::now();
  if (asking_since_ms_ == 0) asking_since_ms_ = steady_ms();
  Values values;
  values.i32(static_cast<int>(server_)).i64(follower_hold.count()).i64(overdue_after.count()).i64(lately.count());
  Rows rows = connection.ask_all(pulse, values);
  asking_since_ms_ = 0;
  looked_at_ms_ = steady_ms();
  next_look_ = asked + (hears_ ? look_every : look_every_unheard);
  database_.learn_time(rows.at(0, 0), asked);
  news.ready |= rows.flag(0, 1);
  news.overdue |= rows.flag(0, 2);
  Found found{.tenants = rows.u64(0, 3),
              .tenant_seqs = rows.u64(0, 4),
              .newest = rows.u64(0, 5),
              .end = rows.u64(0, 6),
              .free_followers = rows.text(0, 7)};
  news.any_tenant |= found.tenants != found_.tenants || found.tenant_seqs != found_.tenant_seqs;
  news.events |= found.newest != found_.newest || found.end != found_.end ||
                 (!found.free_followers.empty() && found.free_followers != found_.free_followers);
  found_ = std::move(found);
  news.gone = others_.look(rows.text(0, 8), asked);
}

bool Messenger::is_looking() const { return steady_ms() - looked_at_ms_ < is_looking_ms; }

bool Messenger::is_silent() const {
  std::int64_t since = asking_since_ms_;
  return since != 0 && steady_ms() - since > silence_ms_max;
}

}  // namespace pawl::postgres
