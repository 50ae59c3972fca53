#include "store/postgres/connection.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "store/store.h"

namespace pawl::postgres {
namespace {

constexpr auto connecting_max = std::chrono::seconds(10);
// Of several hosts, one that does not answer must leave time for the others.
constexpr auto connecting_to_one_of_many_max = std::chrono::seconds(3);
// An answer that is on its way may still arrive after nobody wants to wait.
constexpr auto last_answer_wait = std::chrono::seconds(3);
constexpr int poll_ms = 50;

// What a user leaves open. A peer that vanishes without a word is noticed within seconds, not hours.
constexpr std::array<std::pair<const char*, const char*>, 6> defaults{{{"application_name", "pawl"},
                                                                       {"keepalives_idle", "5"},
                                                                       {"keepalives_interval", "2"},
                                                                       {"keepalives_count", "3"},
                                                                       {"tcp_user_timeout", "12000"},
                                                                       {"client_encoding", "UTF8"}}};

std::string trimmed(const char* message) {
  std::string text = message ? message : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string print_uuid(IdBits bits) {
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", bits.high >> 32, (bits.high >> 16) & 0xffff,
                     bits.high & 0xffff, bits.low >> 48, bits.low & 0xffff'ffff'ffff);
}

std::string state_of(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return state ? state : "";
}

// Takes the SQLSTATE and the place in the server's source out of a verbose message: "FATAL:  28P01: password ...
// LOCATION: ..."
std::string take_state(std::string& message) {
  auto at = message.find(":  ");
  if (at == message.npos || message.size() < at + 10 || message.substr(at + 8, 2) != ": ") return {};
  std::string state = message.substr(at + 3, 5);
  message.erase(at + 2, 7);
  if (auto place = message.find(" LOCATION: "); place != message.npos) message.erase(place);
  return state;
}

// With these the server, or a pooler, ends the connection; what it was doing then is not always undone.
bool ends_connection(std::string_view state) {
  return state.empty() || state.starts_with("08") || state.starts_with("57P");
}

// The one of this number in a list of libpq's: all hosts have the same when there is only one.
std::string nth(const std::string& list, std::size_t number) {
  if (list.find(',') == list.npos) return list;
  std::size_t begin = 0;
  for (; number > 0; --number) {
    std::size_t comma = list.find(',', begin);
    if (comma == list.npos) return {};
    begin = comma + 1;
  }
  return list.substr(begin, list.find(',', begin) - begin);
}

}  // namespace

bool Refused::is_temporary() const {
  static constexpr std::array<std::string_view, 7> states{
      "25006",           // read only: a standby, or a primary that is being moved
      "25P03", "25P04",  // a time-out between statements
      "55P03",           // a lock was not to be had in time
      "57014",           // cancelled, by a time-out or a person
      "55006",           // in use
      "58P01",           // a file of the server's is not there yet
  };
  std::string_view state = state_;
  return state.starts_with("40") || state.starts_with("53") || std::ranges::find(states, state) != states.end();
}

Address::Address(const std::string& url) {
  char* error = nullptr;
  std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(PQconninfoParse(url.c_str(), &error),
                                                                       &PQconninfoFree);
  if (!options) {
    std::string reason = trimmed(error);
    PQfreemem(error);
    // What libpq says quotes the text it cannot read, and a password may be in there.
    throw StoreFailure("the database's address cannot be read. It should look like postgres://user@host:5432/database" +
                       (url.find('@') == url.npos ? ": " + reason : std::string()));
  }
  Parameters parameters;
  std::string host, port, database, user;
  for (auto* option = options.get(); option->keyword; ++option) {
    if (!option->val) continue;
    parameters.emplace_back(option->keyword, option->val);
    std::string_view keyword = option->keyword;
    if (keyword == "host" || (keyword == "hostaddr" && host.empty())) host = option->val;
    if (keyword == "port") port = option->val;
    if (keyword == "dbname") database = option->val;
    if (keyword == "user") user = option->val;
  }
  for (auto [keyword, value] : defaults)
    if (std::ranges::none_of(parameters, [&](const auto& parameter) { return parameter.first == keyword; }))
      parameters.emplace_back(keyword, value);
  auto commas = [](const std::string& list) { return std::ranges::count(list, ','); };
  if (commas(port) > 0 && commas(port) != commas(host))
    throw StoreFailure("the database's address has another number of ports than of hosts");
  // libpq takes a list itself, but does not go on to the next host when one keeps silent and it must not block.
  for (std::size_t number = 0; number <= static_cast<std::size_t>(commas(host)); ++number) {
    Parameters& one = hosts_.emplace_back(parameters);
    for (auto& [keyword, value] : one)
      if (keyword == "host" || keyword == "hostaddr" || keyword == "port") value = nth(value, number);
  }
  name_ = fmt::format("the database {} at {}", database.empty() ? user.empty() ? "of your name" : user : database,
                      host.empty() ? "the local socket" : host);
  if (!port.empty()) name_ += ":" + port;
}

Connection::Connection(const Address& address, const std::atomic<bool>& given_up)
    : address_(address), given_up_(given_up) {
  bool is_one = address.hosts_.size() == 1;
  for (std::size_t number = 0;; ++number) {
    try {
      connect(address.hosts_[number], is_one ? connecting_max : connecting_to_one_of_many_max);
      break;
    } catch (const ConnectionLost&) {
      if (number + 1 == address.hosts_.size() || given_up_) throw;
    }
  }
  PQsetErrorVerbosity(handle_.get(), PQERRORS_DEFAULT);
  PQsetNoticeProcessor(
      handle_.get(), [](void*, const char*) {}, nullptr);
  if (PQsetnonblocking(handle_.get(), 1) != 0 || !PQenterPipelineMode(handle_.get())) lost("connecting");
  has_session_ = call("SELECT pg_backend_pid()", {}).i32(0, 0) == PQbackendPID(handle_.get());
}

void Connection::connect(const Address::Parameters& host, std::chrono::milliseconds at_most) {
  std::vector<const char*> keywords, values;
  for (const auto& [keyword, value] : host) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  handle_.reset(PQconnectStartParams(keywords.data(), values.data(), 0));
  if (!handle_ || PQstatus(handle_.get()) == CONNECTION_BAD) lost("connecting");
  PQsetErrorVerbosity(handle_.get(), PQERRORS_VERBOSE);  // the only way to learn why a server refuses

  auto deadline = std::chrono::steady_clock::now() + at_most;
  auto state = PGRES_POLLING_WRITING;
  while (state != PGRES_POLLING_OK) {
    if (state == PGRES_POLLING_FAILED) lost("connecting");
    pollfd socket{PQsocket(handle_.get()), static_cast<short>(state == PGRES_POLLING_READING ? POLLIN : POLLOUT), 0};
    int ready = ::poll(&socket, 1, poll_ms);
    if (ready < 0 && errno != EINTR) lost("connecting");
    if (given_up_ || std::chrono::steady_clock::now() > deadline)
      throw ConnectionLost(fmt::format("{} does not answer", address_.str()), {});
    if (ready > 0) state = PQconnectPoll(handle_.get());
  }
}

Rows Connection::ask(TenantId tenant, const char* sql, const Values& values) {
  return exchange(print_uuid(tenant.bits).c_str(), sql, values);
}

Rows Connection::ask_all(const char* sql, const Values& values) { return exchange("*", sql, values); }

Rows Connection::call(const char* sql, const Values& values) { return exchange(nullptr, sql, values); }

// Statements that are sent before one sync are one transaction.
Rows Connection::exchange(const char* scope, const char* sql, const Values& values) {
  if (scope) send("SELECT set_config('pawl.tenant', $1, true)", Values().text(std::string_view(scope)));
  send(sql, values);
  if (!PQpipelineSync(handle_.get())) lost(sql);
  flush();

  std::optional<Rows> rows;
  std::optional<Refused> refused;
  while (true) {
    PGresult* result = next_result();
    if (!result) continue;  // between two statements
    Rows read(result);
    switch (PQresultStatus(result)) {
      case PGRES_PIPELINE_SYNC:
        if (refused) throw *refused;
        return std::move(*rows);
      case PGRES_TUPLES_OK:
      case PGRES_COMMAND_OK:
        rows.emplace(std::move(read));
        break;
      case PGRES_PIPELINE_ABORTED:
        break;
      default: {
        auto state = state_of(result);
        std::string reason = trimmed(PQresultErrorMessage(result));
        if (ends_connection(state)) throw ConnectionLost(fmt::format("{}: {}", address_.str(), reason), state);
        if (!refused) refused.emplace(fmt::format("{}: {} ({}) while: {}", address_.str(), reason, state, sql), state);
      }
    }
  }
}

void Connection::script(const std::string& sql) {
  if (!PQexitPipelineMode(handle_.get()) || !PQsendQuery(handle_.get(), sql.c_str())) lost("a script");
  flush();
  std::optional<Refused> refused;
  while (PGresult* result = next_result()) {
    Rows read(result);
    if (PQresultStatus(result) != PGRES_FATAL_ERROR) continue;
    auto state = state_of(result);
    std::string reason = trimmed(PQresultErrorMessage(result));
    if (ends_connection(state)) throw ConnectionLost(fmt::format("{}: {}", address_.str(), reason), state);
    refused.emplace(fmt::format("{}: {} ({})", address_.str(), reason, state), state);
  }
  if (!PQenterPipelineMode(handle_.get())) lost("a script");
  if (refused) throw *refused;
}

void Connection::send(const char* sql, const Values& values) {
  std::vector<const char*> data;
  std::vector<int> sizes, formats;
  for (const auto& value : values.values_) {
    data.push_back(value ? value->data() : nullptr);
    sizes.push_back(value ? static_cast<int>(value->size()) : 0);
    formats.push_back(1);
  }
  if (!PQsendQueryParams(handle_.get(), sql, values.count(), values.types(), data.data(), sizes.data(), formats.data(),
                         1))
    lost(sql);
}

void Connection::flush() {
  while (true) {
    int left = PQflush(handle_.get());
    if (left < 0) lost("sending");
    if (left == 0) return;
    wait(true);
    // The server may be unable to take more before it has got rid of what it has to say.
    if (!PQconsumeInput(handle_.get())) lost("sending");
  }
}

PGresult* Connection::next_result() {
  while (PQisBusy(handle_.get())) {
    wait(false);
    if (!PQconsumeInput(handle_.get())) lost("waiting for an answer");
  }
  PGresult* result = PQgetResult(handle_.get());
  if (!result && PQstatus(handle_.get()) == CONNECTION_BAD) lost("waiting for an answer");
  return result;
}

void Connection::wait(bool for_writing) {
  pollfd socket{PQsocket(handle_.get()), static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN), 0};
  std::optional<Deadline> deadline;
  while (true) {
    int ready = ::poll(&socket, 1, poll_ms);
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) lost("waiting for an answer");
    if (!given_up_) continue;
    auto now = std::chrono::steady_clock::now();
    if (!deadline) deadline = now + last_answer_wait;
    if (now > *deadline) throw ConnectionLost(fmt::format("{} does not answer", address_.str()), {});
  }
}

void Connection::wait_readable(int wake_fd, Deadline deadline) {
  std::array<pollfd, 2> fds{{{PQsocket(handle_.get()), POLLIN, 0}, {wake_fd, POLLIN, 0}}};
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  int ready = ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000)));
  if (ready < 0 && errno != EINTR) lost("waiting for news");
  if (!PQconsumeInput(handle_.get())) lost("waiting for news");
}

void Connection::lost(const std::string& doing) {
  std::string reason = handle_ ? trimmed(PQerrorMessage(handle_.get())) : "out of memory";
  throw ConnectionLost(fmt::format("{} cannot be reached: {} (while: {})", address_.str(), reason, doing),
                       take_state(reason));
}

}  // namespace pawl::postgres
