// What connection.cc and server.cc share: one thread and its connections, and the state of the server that all of them
// share. With wire.h and request_parser.h the only headers that include Asio or Beast; only those two files include
// them.
#pragma once

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "http/line.h"
#include "http/request_id.h"
#include "http/response_head.h"
#include "http/server.h"

namespace pawl::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Named types instead of any_io_executor: the hot path pays for no virtual call.
using Executor = asio::io_context::executor_type;
template <class T>
using Task = asio::awaitable<T, Executor>;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;
using SteadyClock = std::chrono::steady_clock;
using Timer = asio::basic_waitable_timer<SteadyClock, asio::wait_traits<SteadyClock>, Executor>;
constexpr asio::as_tuple_t<asio::use_awaitable_t<Executor>> as_result{};

struct ServerState {
  ServerOptions options;
  Handler& handler;
  std::optional<asio::ssl::context> tls;

  std::atomic<std::size_t> open{0};
  std::atomic<std::size_t> known{0};  // of the open ones
  std::atomic<std::size_t> buffered_bytes{0};
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> disconnected{0};

  std::mutex ended_mutex;
  std::condition_variable ended;  // a connection

  bool is_empty() const { return open == 0; }
};

struct Loop {
  asio::io_context context{1};
  std::optional<asio::executor_work_guard<Executor>> work{context.get_executor()};
  std::thread thread;
  Bell bell{[this] { asio::post(context, [this] { attend(); }); }};  // any thread may ring

  // Only on the thread.
  std::list<Connection*> connections;
  // Those that have not shown who they are; the oldest first, which makes way for a newer one when there are too many.
  std::list<Connection*> unknown;
  std::list<Connection*> callbacks;
  Timer sweep_timer{context};
  DateText date;
  RequestIds request_ids;
  bool stopping = false;
  bool aborting = false;

  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> channels{0};

  void attend();
  // One timer for all deadlines: setting one is an assignment, and they are kept to within a period.
  Task<void> sweep(std::chrono::milliseconds period);
  void begin_stop();
  void abort();  // every coroutine ends now, and with them the thread

 private:
  // What `visit` does may end the connection it is given, and no other.
  template <class Visit>
  void for_each(Visit visit) {
    for (auto i = connections.begin(); i != connections.end();) visit(**i++);
  }
};

// A connection from its accept to its end. Counted in `server` before.
Task<void> serve_connection(ServerState& server, Loop& loop, Socket socket);

}  // namespace pawl::http
