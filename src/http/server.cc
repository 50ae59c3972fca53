// Listening, threads, and how all of it ends.
#include "http/server.h"

#include <openssl/ssl.h>
#include <pthread.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cerrno>
#include <fstream>
#include <future>
#include <stdexcept>
#include <system_error>

#include "http/loop.h"

namespace pawl::http {
namespace {

// Unknown clients that are being disconnected, and those that wait for an answer, are still open for a moment. Past so
// many times their number a connection is closed without a word.
constexpr std::size_t unknown_margin = 2;
// How long accepting rests when the process has no descriptor left.
constexpr auto accept_rest = std::chrono::milliseconds(50);

void load_tls(const char* what, const std::filesystem::path& file, auto load) {
  const auto fail = [&](const std::string& why) {
    throw std::runtime_error("cannot use the TLS " + std::string(what) + " " + file.string() + ": " + why);
  };
  // OpenSSL's own words for a file that is not there are worse.
  errno = 0;
  if (std::ifstream readable(file); !readable || readable.peek() == std::ifstream::traits_type::eof())
    fail(errno ? std::generic_category().message(errno) : "it is empty");
  error_code failed;
  load(file.string(), failed);
  if (failed) fail(failed.message());
}

asio::ssl::context make_tls(const ServerOptions::Tls& files) {
  asio::ssl::context context(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Of TLS 1.2 only what has forward secrecy and authenticated encryption; TLS 1.3 has nothing else.
  if (SSL_CTX_set_cipher_list(context.native_handle(), "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL") != 1)
    throw std::runtime_error("OpenSSL has none of the TLS 1.2 cipher suites with forward secrecy");
  // Without this, OpenSSL asks at the terminal for an encrypted key's password.
  context.set_password_callback([](std::size_t, asio::ssl::context::password_purpose) { return std::string(); });
  load_tls("certificate", files.certificate,
           [&](const std::string& file, error_code& failed) { context.use_certificate_chain_file(file, failed); });
  load_tls("key", files.key, [&](const std::string& file, error_code& failed) {
    context.use_private_key_file(file, asio::ssl::context::pem, failed);
  });
  return context;
}

// Fine enough that no time-out is late by more than an eighth.
std::chrono::milliseconds sweep_period(const ServerOptions& options) {
  const auto shortest = std::min({options.header_timeout, options.body_timeout, options.idle_timeout,
                                  options.write_timeout, options.channel_heartbeat});
  return std::clamp(shortest / 8, std::chrono::milliseconds(5), std::chrono::milliseconds(250));
}

}  // namespace

class Server::Inside {
 public:
  Inside(ServerOptions options, Handler& handler) : server_{.options = std::move(options), .handler = handler} {
    if (server_.options.tls) server_.tls.emplace(make_tls(*server_.options.tls));
    for (int i = 0; i < std::max(1, server_.options.threads); ++i) loops_.push_back(std::make_unique<Loop>());
    acceptor_.emplace(loops_[0]->context);
    rest_.emplace(loops_[0]->context);
    listen();
  }

  void start();
  void stop(std::chrono::milliseconds grace);

  std::uint16_t port() const { return port_; }
  Counts counts() const;

 private:
  void listen();
  Task<void> accept();
  void take_in(Loop& loop, Socket socket);

  ServerState server_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::optional<Acceptor> acceptor_;
  std::optional<Timer> rest_;
  std::promise<void> accept_ended_;
  std::uint16_t port_ = 0;

  std::mutex life_mutex_;  // start() and stop()
  bool running_ = false;
  bool stopped_ = false;
};

void Server::Inside::listen() {
  const ServerOptions options = server_.options;
  try {
    tcp::resolver resolver(loops_[0]->context);
    const tcp::endpoint endpoint =
        *resolver.resolve(options.address, std::to_string(options.port), tcp::resolver::passive).begin();
    acceptor_->open(endpoint.protocol());
    acceptor_->set_option(Acceptor::reuse_address(true));
    acceptor_->bind(endpoint);
    acceptor_->listen();
    port_ = acceptor_->local_endpoint().port();
    if (endpoint.address().is_loopback())
      for (const std::string& name :
           {std::string("localhost"), std::string("127.0.0.1"), std::string("[::1]"), options.address})
        server_.options.hosts.push_back(name);
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error("cannot listen on " + options.address + ":" + std::to_string(options.port) + ": " +
                             error.code().message());
  }
}

void Server::Inside::start() {
  std::lock_guard lock(life_mutex_);
  if (running_ || stopped_) return;
  running_ = true;
  asio::co_spawn(loops_[0]->context, accept(), asio::detached);
  for (auto& loop : loops_) {
    asio::co_spawn(loop->context, loop->sweep(sweep_period(server_.options)), asio::detached);
    loop->thread = std::thread([&loop = *loop] { loop.context.run(); });
    pthread_setname_np(loop->thread.native_handle(), "pawl-http");
  }
}

void Server::Inside::stop(std::chrono::milliseconds grace) {
  std::lock_guard lock(life_mutex_);
  stopped_ = true;
  if (!std::exchange(running_, false)) return;
  asio::post(loops_[0]->context, [this] {
    loops_[0]->stopping = true;
    acceptor_->close();
    rest_->cancel();
  });
  // From here on no connection is handed to a loop, so that a loop that has none left can end.
  accept_ended_.get_future().wait();
  for (auto& loop : loops_) asio::post(loop->context, [&loop = *loop] { loop.begin_stop(); });
  {
    std::unique_lock ended(server_.ended_mutex);
    server_.ended.wait_for(ended, grace, [this] { return server_.is_empty(); });
  }
  for (auto& loop : loops_) asio::post(loop->context, [&loop = *loop] { loop.abort(); });
  for (auto& loop : loops_) loop->thread.join();
}

Task<void> Server::Inside::accept() {
  for (std::size_t turn = 0; !loops_[0]->stopping; ++turn) {
    Loop& loop = *loops_[turn % loops_.size()];
    Socket socket(loop.context);
    const auto [failed] = co_await acceptor_->async_accept(socket, as_result);
    if (!failed) {
      take_in(loop, std::move(socket));
    } else if (failed != asio::error::connection_aborted && !loops_[0]->stopping) {
      // Out of descriptors, as a rule: somebody has to let go of one first.
      rest_->expires_after(accept_rest);
      co_await rest_->async_wait(as_result);
    }
  }
  accept_ended_.set_value();
}

void Server::Inside::take_in(Loop& loop, Socket socket) {
  ++server_.accepted;
  const auto& options = server_.options;
  if (server_.open >= options.connections_max + unknown_margin * options.unknown_connections_max) {
    ++server_.refused;
    return;
  }
  ++server_.open;
  asio::co_spawn(loop.context, serve_connection(server_, loop, std::move(socket)), asio::detached);
}

Server::Counts Server::Inside::counts() const {
  Counts counts{.accepted = server_.accepted,
                .refused = server_.refused,
                .disconnected = server_.disconnected,
                .open = server_.open};
  for (const auto& loop : loops_) {
    counts.channels += loop->channels;
    counts.requests += loop->requests;
  }
  return counts;
}

Server::Server(ServerOptions options, Handler& handler)
    : inside_(std::make_unique<Inside>(std::move(options), handler)) {}
Server::~Server() { inside_->stop(std::chrono::milliseconds(0)); }
void Server::start() { inside_->start(); }
void Server::stop(std::chrono::milliseconds grace) { inside_->stop(grace); }
std::uint16_t Server::port() const { return inside_->port(); }
Server::Counts Server::counts() const { return inside_->counts(); }

}  // namespace pawl::http
