#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <fstream>
#include <iterator>

#include "api/api.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "crypto/hmac.h"
#include "http/server.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

constexpr auto stop_grace_usual = std::chrono::seconds(10);
constexpr int slots_max = 256;
constexpr std::size_t secret_bytes = 32;

// For its owner only, whole or not at all.
void write_private_file(const fs::path& path, std::string_view text) {
  fs::path draft = path.string() + ".new";
  ::unlink(draft.c_str());
  Descriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  bool written = file.get() >= 0 && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                 ::fsync(file.get()) == 0 && ::rename(draft.c_str(), path.c_str()) == 0;
  if (!written)
    throw Stop(exit_store_failure, fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

std::string read_whole_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What keyed hashes of API keys are made with. Without it no key is good any more.
std::string installation_secret(const fs::path& folder) {
  fs::path path = folder / "secret";
  std::string secret = read_whole_file(path);
  if (secret.empty()) {
    secret = random_bytes(secret_bytes);
    write_private_file(path, secret);
  }
  if (secret.size() != secret_bytes)
    throw Stop(exit_store_failure, fmt::format("{} does not hold {} bytes: restore it from a backup", path.string(), secret_bytes));
  return secret;
}

struct Listen {
  std::string address;
  std::uint16_t port = 0;
};

Listen parse_listen(const std::string& text) {
  std::size_t colon = text.rfind(':');
  Listen out;
  if (colon != text.npos) {
    out.address = text.substr(0, colon);
    const char* end = text.data() + text.size();
    auto [at, error] = std::from_chars(text.data() + colon + 1, end, out.port);
    if (out.address.starts_with('[') && out.address.ends_with(']'))
      out.address = out.address.substr(1, out.address.size() - 2);
    if (error == std::errc() && at == end && !out.address.empty()) return out;
  }
  throw Stop(exit_usage, fmt::format("--listen {}: write it as 127.0.0.1:7295 or [::1]:7295", text));
}

// Everything that a server is, in the order in which it must end.
class Service {
 public:
  Service(const ServeOptions& options, const Listen& listen, const fs::path& folder)
      : store_(open_to_write(folder)),
        keys_(installation_secret(folder)),
        feed_(*store_),
        runtime_(*store_, toolbox_.catalog, clock_,
                 {.limits = {},
                  .on_durable = [this](Frame& frame) { learn(frame); },
                  .on_commit = [this](std::chrono::nanoseconds took, std::size_t frames) {
                    metrics_.committed(took, frames);
                  }}),
        worker_{fmt::format("{}{}", local_worker_prefix, ::getpid())},
        pool_({.worker = worker_, .slots = slots_max, .threads_max = slots_max, .clock = [this] { return clock_.now(); }},
              toolbox_.tools, gate_) {
    toolbox_.catalog.expect_remote_tools();
    runtime_.start();
    for (const Tenant& tenant : store_->tenants()) learn(tenant);
    tenant_ = default_tenant();
    make_admin_key(folder);
    if (options.workers) start_workers();
    api_.emplace(api::Api::Parts{runtime_, *store_, keys_, directory_, feed_, metrics_, clock_});
    http::ServerOptions server{.address = listen.address, .port = listen.port};
    server.origins = options.origins;
    server.hosts = options.hosts;
    if (!options.tls_certificate.empty()) server.tls = {options.tls_certificate, options.tls_key};
    try {
      server_.emplace(server, *api_);
    } catch (const std::runtime_error& error) {
      throw Stop(exit_usage, error.what());
    }
    server_->start();
    url_ = fmt::format("{}://{}:{}", server.tls ? "https" : "http",
                       listen.address.find(':') == std::string::npos ? listen.address : "[" + listen.address + "]",
                       server_->port());
    write_private_file(folder / "server.json",
                       boost::json::serialize(boost::json::object{{"url", url_}, {"pid", ::getpid()}}) + "\n");
  }

  ~Service() {
    if (api_) api_->ready() = false;
    runtime_.post([](Engine& engine) { engine.end_polls(); });
    if (server_) server_->stop(stop_grace_usual);
    if (workers_started_) pool_.stop();
    runtime_.stop();
  }

  const std::string& url() const { return url_; }

 private:
  void learn(const Tenant& tenant) {
    directory_.update(tenant);
    keys_.update(tenant);
  }
  // On the writer thread, before anybody is answered.
  void learn(Frame& frame) {
    for (const TenantFold& fold : frame.tenants) learn(fold.tenant);
    feed_.publish(frame);
  }

  TenantId default_tenant() {
    auto tenant = runtime_.ask<TenantId>(
        [](Engine& engine, Reply<TenantId> reply) { engine.create_tenant("default", Actor{"engine"}, std::move(reply)); });
    if (!tenant) throw Stop(exit_internal, tenant.error().message);
    return *tenant;
  }

  void make_admin_key(const fs::path& folder) {
    fs::path path = folder / "admin.key";
    std::string text = read_whole_file(path);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (!text.empty() && keys_.authenticate(text, clock_.now())) return;
    api::NewKey made = keys_.make(clock_.now());
    KeyCreated created{made.id, "admin", Role::admin, made.secret_hash, end_of_time};
    auto done = runtime_.ask<TenantId>([&](Engine& engine, Reply<TenantId> reply) {
      engine.create_key(tenant_, created, Actor{"engine"}, std::move(reply));
    });
    if (!done) throw Stop(exit_internal, done.error().message);
    write_private_file(path, made.text + "\n");
  }

  void start_workers() {
    std::vector<ToolName> names;
    for (const auto& tool : toolbox_.tools) names.push_back(tool->spec().name);
    runtime_.post([this, names](Engine& engine) { engine.add_worker(worker_, names, pool_); });
    pool_.start(runtime_);
    workers_started_ = true;
  }

  Toolbox toolbox_;
  SystemClock clock_;
  OpenGate gate_;
  std::unique_ptr<SqliteStore> store_;
  api::KeyRing keys_;
  api::Directory directory_;
  api::Feed feed_;
  api::Metrics metrics_;
  Runtime runtime_;
  WorkerName worker_;
  WorkerPool pool_;
  bool workers_started_ = false;
  TenantId tenant_;
  std::optional<api::Api> api_;
  std::optional<http::Server> server_;
  std::string url_;
};

}  // namespace

ExitCode serve(const ServeOptions& options) {
  Listen listen = parse_listen(options.listen);
  fs::path folder = data_folder(options.data);
  // Before any thread is made, so that all of them leave these to sigwait below.
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  {
    Service service(options, listen, folder);
    fmt::print(stderr, "pawl serves {} from {}; an admin's key is in {}\n", service.url(), folder.string(),
               (folder / "admin.key").string());
    int signal = 0;
    sigwait(&signals, &signal);
    fmt::print(stderr, "stopping; once more ends it at once\n");
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
  std::error_code ignored;
  fs::remove(folder / "server.json", ignored);
  return exit_success;
}

}  // namespace pawl
