// The life of one connection: requests, each read, handed over, waited for and answered; perhaps a channel; the end.
// gcc 12 miscompiles co_await in both branches of an if, and fails on a braced list in its operand: name such things.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "http/channel.h"
#include "http/input.h"
#include "http/loop.h"
#include "http/request_parser.h"
#include "http/websocket.h"
#include "http/wire.h"

namespace pawl::http {
namespace {

constexpr std::size_t input_bytes_max = 64 << 10;
// A body up to this size is copied behind its head; a larger one is written from where it is.
constexpr std::size_t joined_body_bytes_max = 16 << 10;
constexpr std::size_t channel_batch_bytes = 64 << 10;
// A message of this size is written from where it is, for all who are to have it: a copy for each would add up.
constexpr std::size_t shared_message_bytes = 64 << 10;
constexpr std::size_t output_bytes_kept = 64 << 10;
constexpr std::size_t websocket_message_bytes_max = 4 << 10;
// A connection that ends is still read from for so long: closing it with something unread would reset it, and with that
// destroy the answer that is on its way.
constexpr auto linger_max = std::chrono::milliseconds(1000);
constexpr std::size_t linger_bytes_max = 1 << 20;

}  // namespace

// One connection, from its accept to its end. Lives in its coroutine, on one loop's thread.
class Connection {
 public:
  Connection(ServerState& server, Loop& loop, Socket socket)
      : server_(server),
        loop_(loop),
        wire_(std::move(socket), server.tls ? &*server.tls : nullptr),
        line_(std::make_shared<Line>(loop.bell, *this)),
        place_(loop.connections.insert(loop.connections.end(), this)) {
    enter(Client::unknown);
  }
  ~Connection() {
    line_->cut();
    release_body();
    leave();
    loop_.connections.erase(place_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From the accept to the end.
  Task<void> serve();

  // From the loop, while the coroutine waits.
  void resume() {
    if (auto go = std::exchange(paused_, nullptr)) go();
  }
  void sweep(SteadyClock::time_point now);
  void stop() {
    if (idle_) wire_.close();
    if (listening_) resume();
  }
  void abort() {
    wire_.close();
    resume();
  }

 private:
  using Client = Admission::Client;
  // `gone` and `refused` end the connection; `refused` and `answered` have answered.
  enum class Reading { done, gone, refused, answered };

  Task<bool> open_tls();
  Task<bool> serve_request();
  Task<Reading> read_head();
  Task<Reading> admit();
  Task<Reading> read_body();
  Task<bool> read_more();
  Task<Reading> refuse(Refusal refusal);
  Response response_for(const Refusal& refusal);
  Task<std::optional<Response>> ask_handler();
  Task<bool> respond(Response response);
  void let_page_read(Response& response) const;
  Task<bool> write(asio::const_buffer first, asio::const_buffer second = {});
  Task<void> linger();

  Task<void> serve_channel(Response response);
  Task<bool> open_channel(Response& response);
  Task<void> write_channel(Outbox& outbox);
  bool append_channel_end(Outbox::State state, const Outbox::Reason& reason, std::string_view last_id);
  Task<void> listen();

  Framing framing() const { return websocket_key_.empty() ? Framing::events : Framing::websocket; }
  // What the client is counted as. A known one needs room in its account, and in the server.
  void enter(Client client);
  std::optional<Refusal> enter_known(std::shared_ptr<Account> account);
  void leave();
  // For a newer one.
  void disconnect() {
    ++server_.disconnected;
    client_gone_->store(true, std::memory_order_relaxed);
    wire_.close();
  }
  std::optional<Refusal> take_body_bytes();
  void release_body() {
    server_.buffered_bytes -= body_bytes_;
    if (account_) account_->body_bytes -= body_bytes_;
    body_bytes_ = 0;
  }
  Task<void> pause() {
    return asio::async_initiate<const asio::use_awaitable_t<Executor>, void()>(
        [this](auto handler) { paused_ = [handler = std::move(handler)]() mutable { std::move(handler)(); }; },
        asio::use_awaitable_t<Executor>{});
  }
  void set_deadline(std::chrono::milliseconds from_now) {
    timed_out_ = false;
    deadline_ = SteadyClock::now() + from_now;
  }
  void set_no_deadline() {
    timed_out_ = false;
    deadline_ = SteadyClock::time_point::max();
  }

  ServerState& server_;
  Loop& loop_;
  Wire wire_;
  std::shared_ptr<Line> line_;
  std::list<Connection*>::iterator place_;
  std::string peer_;
  Input input_;
  std::string output_;
  std::optional<RequestParser> parser_;
  std::size_t body_bytes_ = 0;  // counted in the server's buffered_bytes, and in the account
  Client client_ = Client::unknown;
  bool entered_ = false;                       // counted as that
  std::list<Connection*>::iterator standing_;  // among those, of unknown ones and callbacks
  std::shared_ptr<Account> account_;           // of a known one; may be null

  std::move_only_function<void()> paused_;
  SteadyClock::time_point deadline_ = SteadyClock::time_point::max();
  bool timed_out_ = false;
  bool gone_ = false;    // the client
  bool asking_ = false;  // the handler has a request and has not answered
  std::shared_ptr<std::atomic<bool>> client_gone_ = std::make_shared<std::atomic<bool>>(false);
  bool first_request_ = true;
  bool idle_ = true;  // nothing is lost when it is closed now

  // Of the request that is being answered; the rest of it the handler has.
  bool head_only_ = false;
  std::string request_id_;
  std::string websocket_key_;  // empty: no WebSocket was asked for
  std::string origin_;         // of the page that asks, which may; empty: no page

  // Of a channel: what listen() heard, for write_channel() to answer.
  bool listening_ = false;
  std::optional<std::string> ping_;
  std::optional<CloseCode> close_;
};

void Loop::attend() {
  for (const auto& line : bell.take())
    if (auto* connection = line->attend()) connection->resume();
}

Task<void> Loop::sweep(std::chrono::milliseconds period) {
  while (!aborting) {
    sweep_timer.expires_after(period);
    co_await sweep_timer.async_wait(as_result);
    const auto now = SteadyClock::now();
    for_each([now](Connection& connection) { connection.sweep(now); });
  }
}

void Loop::begin_stop() {
  stopping = true;
  for_each([](Connection& connection) { connection.stop(); });
}

void Loop::abort() {
  stopping = aborting = true;
  sweep_timer.cancel();
  work.reset();
  for_each([](Connection& connection) { connection.abort(); });
}

void Connection::sweep(SteadyClock::time_point now) {
  if (asking_ && wire_.is_ended()) client_gone_->store(true, std::memory_order_relaxed);
  if (now < deadline_) return;
  // Until somebody sets another deadline, every sweep says so again: what is cancelled may be between two steps.
  timed_out_ = true;
  if (paused_)
    resume();
  else
    wire_.cancel();
}

void Connection::enter(Client client) {
  if (entered_ && client == client_) return;
  leave();
  client_ = client;
  entered_ = true;
  const auto& options = server_.options;
  auto& others = client == Client::callback ? loop_.callbacks : loop_.unknown;
  const auto all_max = client == Client::callback ? options.callbacks_max : options.unknown_connections_max;
  const auto max = std::max<std::size_t>(1, all_max / static_cast<std::size_t>(std::max(1, options.threads)));
  // It stays where it is until its coroutine has ended; here it counts no more.
  while (others.size() >= max) {
    Connection& oldest = *others.front();
    oldest.leave();
    oldest.disconnect();
  }
  standing_ = others.insert(others.end(), this);
}

std::optional<Refusal> Connection::enter_known(std::shared_ptr<Account> account) {
  if (entered_ && client_ == Client::known && account == account_) return std::nullopt;
  const auto& options = server_.options;
  // Counted first, then looked at: two threads do not both take the last place.
  const auto known = ++server_.known;
  const auto own = account ? ++account->connections : 0;
  const auto give_back = [&] {
    --server_.known;
    if (account) --account->connections;
    ++server_.refused;
  };
  const auto free = options.connections_max - std::min(known - 1, options.connections_max);
  if (free == 0) {
    give_back();
    return too_many("TOO_MANY_CONNECTIONS", "too many connections are open");
  }
  if (account && (own > account->connections_max || own - 1 >= options.connections_share * free)) {
    give_back();
    return too_many_of_client("this tenant has too many connections open; use fewer, and keep them");
  }
  leave();
  client_ = Client::known;
  entered_ = true;
  account_ = std::move(account);
  return std::nullopt;
}

void Connection::leave() {
  if (!std::exchange(entered_, false)) return;
  if (client_ != Client::known) {
    (client_ == Client::callback ? loop_.callbacks : loop_.unknown).erase(standing_);
    return;
  }
  --server_.known;
  if (account_) --account_->connections;
  account_ = nullptr;
}

Task<void> Connection::serve() {
  wire_.prepare(server_.options.write_timeout);
  peer_ = wire_.peer();
  const bool opened = co_await open_tls();
  if (!opened) co_return;
  bool goes_on = true;
  while (goes_on) goes_on = co_await serve_request();
  co_await linger();
}

// Its deadline is also that of the first request's head.
Task<bool> Connection::open_tls() {
  set_deadline(server_.options.header_timeout);
  if (!wire_.has_tls()) co_return true;
  const auto [failed] = co_await wire_.handshake();
  co_return !failed && !timed_out_;
}

// False when the connection is to end.
Task<bool> Connection::serve_request() {
  parser_.emplace(server_.options);
  auto reading = co_await read_head();
  if (reading == Reading::done) reading = co_await admit();
  if (reading == Reading::answered) co_return true;
  if (reading == Reading::done && !parser_->is_done()) reading = co_await read_body();
  if (reading != Reading::done) co_return false;
  set_no_deadline();

  const auto& request = parser_->request;
  if (request.wants_websocket) websocket_key_ = request.header("sec-websocket-key");
  auto response = co_await ask_handler();
  release_body();
  if (!entered_) enter(Client::unknown);
  if (!response) co_return false;
  if (!response->stream || response->status != 200) co_return co_await respond(std::move(*response));
  const bool opened = co_await open_channel(*response);
  if (opened) co_await serve_channel(std::move(*response));
  co_return false;
}

Task<Connection::Reading> Connection::read_head() {
  idle_ = true;
  head_only_ = false;
  request_id_.clear();
  websocket_key_.clear();
  origin_.clear();
  input_.shrink();
  const bool first = std::exchange(first_request_, false);
  // A client that is still unknown after an answer is not waited for as long as others.
  const auto& options = server_.options;
  const auto idle_max =
      client_ == Client::known ? options.idle_timeout : std::min(options.idle_timeout, options.header_timeout);
  if (!first) set_deadline(idle_max);
  for (;;) {
    // A line break or two before a request are a habit of old clients, and not yet a request.
    while (!parser_->got_some() && (input_.bytes().starts_with('\r') || input_.bytes().starts_with('\n')))
      input_.consume(1);
    if (!input_.empty()) {
      // The first request's time began with the accept.
      if (std::exchange(idle_, false) && !first) set_deadline(server_.options.header_timeout);
      error_code error;
      input_.consume(parser_->put_head(input_.bytes(), error));
      if (!error) break;
      if (error != beast::http::error::need_more) co_return co_await refuse(parser_->refusal(error));
    }
    const bool read = co_await read_more();
    if (!read && (!timed_out_ || idle_)) co_return Reading::gone;
    if (!read) co_return co_await refuse(too_slow("the request's headers came too slowly"));
  }
  head_only_ = parser_->request.method == Method::head;
  if (const auto given = parser_->request.header("x-request-id"); is_fit_request_id(given)) request_id_ = given;
  if (request_id_.empty()) request_id_ = loop_.request_ids.next();
  const Protocol protocol{
      .http_1_0 = parser_->is_http_1_0(), .authority = parser_->authority(), .upgrade = parser_->upgrade()};
  auto refused = check_head(parser_->request, protocol, {server_.options.origins, server_.options.hosts});
  if (refused) co_return co_await refuse(std::move(*refused));
  origin_ = parser_->request.header("origin");
  co_return Reading::done;
}

// Whose request it is, and whether its body is to be read at all.
Task<Connection::Reading> Connection::admit() {
  auto& request = parser_->request;
  request.peer = peer_;
  request.id = request_id_;
  request.has_body = !parser_->is_done();
  Admission admission;
  bool failed = false;
  try {
    admission = server_.handler.admit(request);
  } catch (...) {
    failed = true;
  }
  if (failed) {
    Refusal refusal{.status = 500, .code = "INTERNAL", .detail = "the request could not be handled"};
    co_return co_await refuse(std::move(refusal));
  }
  std::optional<Refusal> refused;
  if (admission.client == Client::known)
    refused = enter_known(std::move(admission.account));
  else
    enter(admission.client == Client::callback && request.has_body ? Client::callback : Client::unknown);
  if (!refused && admission.client == Client::unknown && request.has_body && !admission.refusal)
    refused = malformed("this request takes no body");
  if (refused) co_return co_await refuse(std::move(*refused));
  if (admission.refusal && request.has_body) parser_.reset();  // what follows is its body, and is not read
  if (admission.refusal) {
    const bool goes_on = co_await respond(std::move(*admission.refusal));
    co_return goes_on ? Reading::answered : Reading::refused;
  }
  request.admitted = std::move(admission.admitted);
  const auto bytes_max = client_ == Client::callback
                             ? std::min(server_.options.callback_bytes_max, server_.options.body_bytes_max)
                             : server_.options.body_bytes_max;
  if (!parser_->limit_body(bytes_max)) {
    Refusal refusal = parser_->refusal(beast::http::error::body_limit);
    co_return co_await refuse(std::move(refusal));
  }
  co_return Reading::done;
}

Task<Connection::Reading> Connection::read_body() {
  const auto timeout = client_ == Client::callback ? server_.options.callback_timeout : server_.options.body_timeout;
  set_deadline(timeout);
  parser_->eager(true);
  if (input_.empty() && !parser_->is_http_1_0() && !parser_->request.header("expect").empty()) {
    if (!co_await write(asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")))) co_return Reading::gone;
    set_deadline(timeout);
  }
  for (;;) {
    if (!input_.empty()) {
      error_code error;
      input_.consume(parser_->put(asio::buffer(input_.bytes()), error));
      // A full buffer that is not enough can only be a chunk's extensions, which nobody needs.
      if (error == beast::http::error::need_more && input_.room(input_bytes_max).empty())
        error = beast::http::error::bad_chunk_extension;
      if (error && error != beast::http::error::need_more) co_return co_await refuse(parser_->refusal(error));
      auto refused = take_body_bytes();
      if (refused) co_return co_await refuse(std::move(*refused));
      // A callback's place is for reading; the handler has its own limit for those that it works on.
      if (parser_->is_done() && client_ == Client::callback) leave();
      if (parser_->is_done()) co_return Reading::done;
    }
    const bool read = co_await read_more();
    if (!read && !timed_out_) co_return Reading::gone;
    if (!read) co_return co_await refuse(too_slow("the request's body came too slowly"));
  }
}

// False when the client has gone, or the deadline has passed. Bytes that came are taken even when the deadline passes
// before this thread gets to them: a server that is busy does not refuse a request that is already there.
Task<bool> Connection::read_more() {
  if (timed_out_) co_return false;
  const auto room = input_.room(std::max(input_bytes_max, server_.options.header_bytes_max));
  const auto [failed, bytes] = co_await wire_.read(asio::buffer(room.data(), room.size()));
  gone_ = failed && !timed_out_;
  if (failed) co_return false;
  input_.commit(bytes);
  co_return true;
}

// Counts what has come of the body.
std::optional<Refusal> Connection::take_body_bytes() {
  const auto& options = server_.options;
  const auto come = parser_->request.body.size();
  const auto counted = come - std::min(come, options.uncounted_body_bytes);
  const auto more = counted - body_bytes_;
  if (more == 0) return std::nullopt;
  body_bytes_ = counted;
  const auto all = server_.buffered_bytes += more;
  const auto own = account_ ? account_->body_bytes += more : 0;
  if (all > options.buffered_bytes_max)
    return too_many("TOO_MANY_BYTES", "the bodies of all requests together are too large");
  if (own > options.buffered_bytes_max - all)
    return too_many_of_client("the bodies of this tenant's requests together are too large");
  return std::nullopt;
}

// None when the server stops and nobody waits any more.
Task<std::optional<Response>> Connection::ask_handler() {
  loop_.requests.fetch_add(1, std::memory_order_relaxed);
  const auto number = line_->open_request();
  parser_->request.gone = client_gone_;
  bool failed = false;
  try {
    server_.handler.handle(std::move(parser_->request), Answer(line_, number));
  } catch (...) {
    failed = true;
  }
  if (failed) {
    line_->open_request();  // whoever still has the responder answers nothing
    co_return response_for({.status = 500, .code = "INTERNAL", .detail = "the request could not be handled"});
  }
  std::optional<Response> response;
  asking_ = true;
  while (!line_->take_answer(response)) {
    if (loop_.aborting) co_return std::nullopt;
    co_await pause();
  }
  asking_ = false;
  if (!response) response = response_for({.status = 503, .code = "NOT_ANSWERED", .detail = "the request was given up"});
  co_return response;
}

Response Connection::response_for(const Refusal& refusal) {
  Response response;
  try {
    response = server_.handler.refuse(refusal.status, refusal.code, refusal.detail);
  } catch (...) {
    response = {.content_type = "text/plain", .body = std::string(refusal.detail)};
  }
  response.status = refusal.status;
  response.stream = nullptr;
  response.headers.insert(response.headers.end(), refusal.headers.begin(), refusal.headers.end());
  return response;
}

// What follows a refused request cannot be understood, or is not wanted: the connection ends.
Task<Connection::Reading> Connection::refuse(Refusal refusal) {
  parser_.reset();
  release_body();
  if (request_id_.empty()) request_id_ = loop_.request_ids.next();
  co_await respond(response_for(refusal));
  co_return Reading::refused;
}

// A browser keeps an answer from the page unless the answer says that this page may have it.
void Connection::let_page_read(Response& response) const {
  if (origin_.empty()) return;
  response.headers.emplace_back("Access-Control-Allow-Origin", origin_);
  response.headers.emplace_back("Access-Control-Expose-Headers", "Location, Idempotency-Replayed, Retry-After");
  response.headers.emplace_back("Vary", "Origin");
}

// True when the connection goes on.
Task<bool> Connection::respond(Response response) {
  const bool goes_on = parser_ && parser_->keep_alive() && !loop_.stopping;
  const bool bodiless = response.status < 200 || response.status == 204 || response.status == 304;
  HeadFraming framing{.date = loop_.date.now(), .request_id = request_id_};
  if (!bodiless) framing.length = response.body.size();
  if (!goes_on)
    framing.connection = "close";
  else if (parser_->is_http_1_0())
    framing.connection = "keep-alive";
  output_.clear();
  let_page_read(response);
  append_head(output_, response, framing);
  if (bodiless || head_only_) response.body.clear();
  const bool joined = response.body.size() <= joined_body_bytes_max;
  if (joined) output_ += response.body;
  const auto rest = joined ? asio::const_buffer() : asio::buffer(response.body);
  const bool written = co_await write(asio::buffer(output_), rest);
  co_return goes_on ? written : false;
}

// The time-out is for a client that takes nothing at all: a long answer may take long.
Task<bool> Connection::write(asio::const_buffer first, asio::const_buffer second) {
  std::array left{first, second};
  auto written = wire_.write_at_once(left);
  for (;;) {
    for (auto& buffer : left) {
      const auto taken = std::min(written, buffer.size());
      buffer += taken;
      written -= taken;
    }
    if (left[0].size() + left[1].size() == 0) co_return true;
    set_deadline(server_.options.write_timeout);
    const auto [failed, bytes] = co_await wire_.write(left);
    gone_ = failed || timed_out_;
    if (gone_) co_return false;
    written = bytes;
  }
}

// Reads no more once the client's end has been seen: Asio would wait for what cannot come.
Task<void> Connection::linger() {
  if (gone_) co_return;
  idle_ = true;
  set_deadline(linger_max);
  if (wire_.has_tls()) {
    const auto [failed] = co_await wire_.say_goodbye();
    if (!failed || failed == asio::error::eof || failed == asio::ssl::error::stream_truncated) co_return;
  }
  wire_.shut_sending();
  // When the server stops, the wait is only for those who may still be sending.
  std::size_t drained = loop_.stopping && input_.empty() ? linger_bytes_max : 0;
  while (drained < linger_bytes_max && !timed_out_) {
    input_.consume(input_.bytes().size());
    const auto room = input_.room(input_bytes_max);
    const auto [failed, bytes] = co_await wire_.read_raw(asio::buffer(room.data(), room.size()));
    if (failed) co_return;
    drained += bytes;
  }
}

// The head that makes the connection a channel. False when it does not become one.
Task<bool> Connection::open_channel(Response& response) {
  if (framing() == Framing::websocket) {
    response.status = 101;
    response.content_type.clear();
    response.headers.emplace_back("Upgrade", "websocket");
    response.headers.emplace_back("Sec-WebSocket-Accept", websocket_accept(websocket_key_));
  } else {
    response.content_type = "text/event-stream";
  }
  output_.clear();
  let_page_read(response);
  append_head(output_, response,
              {.connection = framing() == Framing::websocket ? "Upgrade" : "close",
               .date = loop_.date.now(),
               .request_id = request_id_});
  const bool written = co_await write(asio::buffer(output_));
  co_return written && !head_only_;
}

Task<void> Connection::serve_channel(Response response) {
  const auto outbox = std::make_shared<Outbox>(server_.options.channel_bytes_max, [line = line_] { line->ring(); });
  ++loop_.channels;
  wire_.limit_unsent(server_.options.channel_unsent_bytes_max);
  listening_ = true;
  asio::co_spawn(loop_.context, listen(), asio::detached);
  try {
    response.stream(std::make_shared<OutboxChannel>(outbox));
    co_await write_channel(*outbox);
  } catch (...) {
    // Nothing to tell the client that the end of its channel does not tell.
  }
  outbox->close();
  --loop_.channels;

  // A WebSocket ends when the client has agreed, a stream of events when it has seen the end.
  set_deadline(linger_max);
  if (gone_) wire_.close();
  if (wire_.has_tls() && listening_) co_await wire_.say_goodbye();
  wire_.shut_sending();
  while (listening_) {
    if (timed_out_ || loop_.aborting) wire_.close();
    co_await pause();
  }
  gone_ = true;
}

Task<void> Connection::write_channel(Outbox& outbox) {
  std::vector<Outbox::MessagePtr> batch;
  std::string last_id;
  auto heartbeat = SteadyClock::now() + server_.options.channel_heartbeat;
  while (listening_) {
    output_.clear();
    const auto state = outbox.take(batch, channel_batch_bytes);
    for (const auto& message : batch) {
      const auto tail = message->data.size() < shared_message_bytes ? std::nullopt
                                                                    : append_message_head(output_, framing(), *message);
      if (!tail) {
        append_message(output_, framing(), *message);
        continue;
      }
      if (!co_await write(asio::buffer(output_), asio::buffer(message->data))) co_return;
      output_.assign(*tail);
    }
    if (!batch.empty()) last_id = batch.back()->id;
    batch.clear();
    if (const auto ping = std::exchange(ping_, std::nullopt)) append_pong_frame(output_, *ping);
    const bool ends = append_channel_end(state, outbox.reason(), last_id);
    if (output_.empty() && SteadyClock::now() >= heartbeat) append_heartbeat(output_, framing());
    if (output_.empty() && !ends) {
      timed_out_ = false;
      deadline_ = heartbeat;
      co_await pause();
      continue;
    }
    if (!co_await write(asio::buffer(output_)) || ends) co_return;
    if (output_.capacity() > output_bytes_kept) output_ = {};
    heartbeat = SteadyClock::now() + server_.options.channel_heartbeat;
  }
}

// False when the channel goes on.
bool Connection::append_channel_end(Outbox::State state, const Outbox::Reason& reason, std::string_view last_id) {
  if (close_)
    append_close_frame(output_, *close_, "");
  else if (state == Outbox::State::ended)
    append_end(output_, framing(), reason);
  else if (state == Outbox::State::cut_off)
    append_end(output_, framing(), ChannelEnd::too_slow, last_id);
  else if (loop_.stopping)
    append_end(output_, framing(), ChannelEnd::stopping, last_id);
  else if (state == Outbox::State::finished)
    append_end(output_, framing(), ChannelEnd::finished, last_id);
  else
    return false;
  return true;
}

// The other direction, in a coroutine of its own: hears that the client goes, and what keeps a WebSocket in order.
// Rings instead of resuming, because what it resumes may end the connection under its feet.
Task<void> Connection::listen() {
  FrameReader frames(websocket_message_bytes_max);
  for (;;) {
    if (framing() == Framing::websocket) {
      auto heard = frames.read(input_.bytes());
      if (heard.ping) ping_ = std::move(heard.ping);
      if (heard.close) close_ = heard.close;
      if (heard.ping || heard.close) line_->ring();
    }
    input_.consume(input_.bytes().size());
    const auto room = input_.room(input_bytes_max);
    const auto [failed, bytes] = co_await wire_.read(asio::buffer(room.data(), room.size()));
    if (failed) break;
    input_.commit(bytes);
  }
  listening_ = false;
  wire_.close();  // whatever still waits for the client ends now
  line_->ring();
}

Task<void> serve_connection(ServerState& server, Loop& loop, Socket socket) {
  try {
    if (!loop.stopping) {
      Connection connection(server, loop, std::move(socket));
      co_await connection.serve();
    }
  } catch (...) {
    // Out of memory, or of descriptors: this connection ends, the others go on.
  }
  std::lock_guard lock(server.ended_mutex);
  --server.open;
  server.ended.notify_all();
}

}  // namespace pawl::http
