#include "store/postgres/messenger.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "store/postgres/news_wire.h"
#include "store/postgres/statements.h"

namespace pawl::postgres {
namespace {

constexpr auto clock_every = std::chrono::seconds(3);
constexpr Duration look_every = std::chrono::milliseconds(100);
constexpr std::size_t told_max = 1000;
constexpr const char* notify = "SELECT pg_notify('pawl', m) FROM unnest($1::text[]) m";

}  // namespace

Messenger::Messenger(Database& database, std::uint32_t server)
    : database_(database), server_(server), link_(database), wake_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_fd_ < 0) throw StoreFailure("no file descriptor is left: raise the limit (ulimit -n)");
}

Messenger::~Messenger() { ::close(wake_fd_); }

void Messenger::listen(Connection& connection) {
  missed_ = true;
  hears_ = connection.has_session();
  if (hears_) connection.script("LISTEN pawl");
}

News Messenger::wait(Duration at_most) {
  auto deadline = std::chrono::steady_clock::now() + at_most;
  News news;
  try {
    Connection& connection = link_.connection(deadline, [&](Connection& fresh) { listen(fresh); });
    learn_time(connection);
    while (true) {
      send_told(connection);
      while (std::unique_ptr<PGnotify, decltype(&PQfreemem)> heard{PQnotifies(connection.handle()), &PQfreemem})
        read_news(heard->extra, server_, news);
      if (std::exchange(missed_, false)) news.ready = news.events = true;
      auto now = std::chrono::steady_clock::now();
      if (!hears_ && now + look_every >= deadline) news.ready = news.events = true;
      if (!news.empty() || now >= deadline || database_.given_up()) break;
      connection.wait_readable(wake_fd_, hears_ ? deadline : std::min(deadline, now + look_every));
      if (!hears_ && std::chrono::steady_clock::now() >= now + look_every) news.ready = news.events = true;
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
    for (std::string& message : print_news(news, server_, server))
      if (told_.size() < told_max && (told_.empty() || told_.back() != message)) told_.push_back(std::move(message));
  }
  std::uint64_t one = 1;
  [[maybe_unused]] auto written = ::write(wake_fd_, &one, sizeof one);
}

void Messenger::send_told(Connection& connection) {
  std::uint64_t count = 0;
  [[maybe_unused]] auto read = ::read(wake_fd_, &count, sizeof count);
  std::vector<std::string> messages;
  {
    std::lock_guard lock(mutex_);
    messages.assign(std::make_move_iterator(told_.begin()), std::make_move_iterator(told_.end()));
    told_.clear();
  }
  if (!messages.empty()) connection.call(notify, Values().texts(messages));
}

void Messenger::learn_time(Connection& connection) {
  auto now = std::chrono::steady_clock::now();
  if (now < next_clock_) return;
  database_.learn_time(connection.call(clock, {}).at(0, 0), now);
  next_clock_ = now + clock_every;
}

}  // namespace pawl::postgres
