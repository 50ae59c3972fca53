#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>

#include "api/api.h"
#include "cli/background_check.h"
#include "cli/commands.h"
#include "cli/guarded_store.h"
#include "cli/key_files.h"
#include "cli/service_manager.h"
#include "cli/session.h"
#include "cli/settings.h"
#include "cli/startup_check.h"
#include "cli/stop_signals.h"
#include "cli/terminal.h"
#include "crypto/certificate.h"
#include "crypto/hmac.h"
#include "engine/server.h"
#include "engine/task_follower.h"
#include "evidence/evidence_follower.h"
#include "evidence/signing_keys.h"
#include "http/server.h"
#include "notify/slack.h"
#include "notify/webhooks.h"
#include "providers/carriers.h"
#include "store/postgres/postgres_store.h"
#include "store/sqlite/private_files.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

constexpr auto log_sweep_interval = std::chrono::hours(1);
constexpr auto slow_commit = std::chrono::seconds(1);
// While a server stops: how long a database that answers has for what is said last, and how often it is looked at.
constexpr Duration last_answers_limit = std::chrono::seconds(5);
constexpr auto stop_check_interval = std::chrono::milliseconds(100);

// For its owner only, whole or not at all.
void write_private_file(const fs::path& path, std::string_view text) {
  fs::path draft = path.string() + ".new";
  ::unlink(draft.c_str());
  Descriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  bool written = file.get() >= 0 &&
                 ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                 ::fsync(file.get()) == 0 && ::rename(draft.c_str(), path.c_str()) == 0;
  if (!written) throw Stop(exit_store_failure, fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

std::string read_whole_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Connections that have not shown a key yet, beside connections_max.
std::size_t unknown_connections_max(const ServeSettings& settings) {
  constexpr std::size_t least = 16;
  return std::max(least, static_cast<std::size_t>(settings.connections_max) / 8);
}

// What one key may keep open, so that others find a connection.
api::OpenRequests::Limits open_request_limits(const ServeSettings& settings) {
  const auto connections = static_cast<std::size_t>(settings.connections_max);
  return {.streams_per_key_max = std::max<std::size_t>(1, connections / 4),
          .all_per_key_max = std::max<std::size_t>(1, connections / 2)};
}

// As many descriptors as the settings need, and a reserve for files, steps and whatever else.
void make_room_for(const ServeSettings& settings, Log& log) {
  constexpr rlim_t others = 512;
  constexpr rlim_t per_slot = 8;  // a program has pipes, an HTTP request sockets
  rlim_t needed = others + static_cast<rlim_t>(settings.connections_max) + 2 * unknown_connections_max(settings) +
                  per_slot * static_cast<rlim_t>(settings.worker_slots);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < needed)
    log.warning(
        "this process may open fewer files than its settings need; raise LimitNOFILE or ulimit -n, or lower "
        "connections_max",
        {{"files_max", limit.rlim_cur}, {"needed", needed}});
}

using HeldFolder = std::unique_ptr<sqlite::FolderLock>;

// With a database elsewhere the folder is still one server's: its address and keys lie there.
HeldFolder hold_folder(const fs::path& folder) try {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  sqlite::make_folder(folder);
  return std::make_unique<sqlite::FolderLock>(folder);
} catch (const StoreFailure& failure) {
  throw Stop(is_locked_by_another(folder) ? exit_busy : exit_store_failure, failure.what());
}

// Who could read these had every key and secret in them.
void close_to_others(const fs::path& folder, Log& log) try {
  const auto open_before = sqlite::make_private(folder);
  if (!open_before.empty())
    log.warning("other users could use files of the data folder, and cannot any more; if somebody did, renew the keys",
                {{"first", open_before.front().string()}, {"files", open_before.size()}});
} catch (const StoreFailure& failure) {
  throw Stop(exit_store_failure, failure.what());
}

// Where the CLI finds the server of this folder. Requires the lock of the folder.
void remove_address(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(folder / "server.json", ignored);
}

std::unique_ptr<Store> open_store(const EffectiveSettings& settings, Log& log, HeldFolder& held,
                                  GuardedStore::OnDamage on_damage) {
  close_to_others(settings.folder, log);
  const std::string& url = settings.values.store;
  if (url.empty()) {
    // Before a new journal is made beside the keys of another one.
    if (!fs::exists(journal_in(settings.folder)))
      if (auto problem = journal_problem({}, settings)) throw Stop(exit_not_found, *problem);
    auto store = open_to_write(settings.folder);
    remove_address(settings.folder);  // of a server that was killed
    check_at_start(*store, settings.folder.string(),
                   fmt::format("{} verify {}", this_program(), location_of(settings.folder).flags));
    return std::make_unique<GuardedStore>(std::move(store), std::move(on_damage));
  }
  if (!is_postgres_url(url))
    throw Stop(exit_usage,
               fmt::format("store: {} is not the address of a database; write postgres://user@host/database",
                           without_password(url)));
  held = hold_folder(settings.folder);
  remove_address(settings.folder);  // of a server that was killed
  try {
    auto store = std::make_unique<PostgresStore>(
        PostgresOptions{.url = url, .report = [&log](const std::string& what) { log.warning(what, {}); }});
    for (const std::string& warning : store->warnings()) log.warning(warning, {});
    // Other servers write meanwhile: one moment of it is looked at.
    check_at_start(*PostgresStore::open_view(url), without_password(url), "pawl verify --store URL");
    return store;
  } catch (const StoreFailure& failure) {
    throw Stop(exit_store_failure, failure.what());
  }
}

bool is_loopback(std::string_view host) { return host.starts_with("127.") || host == "::1" || host == "localhost"; }

// The tools that workflows may name, and those of pawl's own.
Toolbox toolbox_with(const notify::NotifyContext& notify_context, const EffectiveSettings& settings,
                     SecretVariables secrets) {
  Toolbox out(settings.values, std::move(secrets), settings.folder);
  out.agents->own_paths = own_paths(settings);
  for (auto make : {notify::make_webhook_tool, notify::make_slack_tool}) {
    out.tools.push_back(make(notify_context));
    out.catalog.add(out.tools.back()->spec());
  }
  return out;
}

// Everything that a server is, in the order in which it must end. Constructing it opens the store and recovers what is
// in it, which waits for a database that is away; open() then lets clients and workers in.
class Service {
 public:
  Service(const EffectiveSettings& settings, SecretVariables secrets, Log& log)
      : log_(log),
        toolbox_(toolbox_with(notify_context_, settings, std::move(secrets))),
        store_(open_store(settings, log, held_folder_,
                          [this](RunId run, const std::string& what) {
                            say_damage({run.str(), 0, what});
                          })),
        clock_(*store_),
        keys_(own_secret(settings)),
        feed_(*store_, keys_.derive_secret("feed positions")),
        runtime_(*store_, toolbox_.catalog, clock_,
                 runtime_options(settings, carriers_options(settings.values).providers())),
        notary_({runtime_, *store_, clock_, key_files_of(settings).signing_key}),
        artifacts_(artifacts_of(settings)),
        keeper_(notary_, *store_, *artifacts_,
                {.bundles = settings.values.bundles,
                 .interval = settings.values.checkpoint_interval,
                 .on_backlog = [this](std::size_t runs) { metrics_.bundles_due(runs); }}),
        keeping_(*store_, keeper_, keeping_options()),
        carriers_(runtime_, *store_, clock_, carriers_options(settings.values)),
        worker_(local_worker(*store_)),
        pool_({.worker = worker_,
               .slots = settings.values.worker_slots,
               .threads_max = settings.values.worker_slots,
               .clock = [this] { return clock_.now(); },
               .secrets = [this](const SecretRequest& request) { return find_secret(request); }},
              toolbox_.tools, gate_) {
    halt_on_failure([&] { recover(settings); });
  }

  void open(const EffectiveSettings& settings) {
    halt_on_failure([&] { let_in(settings); });
  }

  // Requests and steps that have begun may end within `grace`. What is left then is dropped, and steps are given back.
  void stop(Duration grace) {
    stopping_ = true;
    std::jthread limit([this, grace](const std::stop_token& stop) { stop_waiting_in_time(grace, stop); });
    api_->ready() = false;
    runtime_.wind_down();
    std::thread workers([this, grace] { pool_.stop(grace); });
    server_->stop(grace);
    workers.join();
    halt();
  }

  const std::string& url() const { return url_; }
  EngineStats stats() {
    auto stats = runtime_.ask<EngineStats>([](Engine& engine, Reply<EngineStats> reply) {
      engine.when_durable([stats = engine.stats(), reply = std::move(reply)]() mutable { reply(std::move(stats)); });
    });
    return stats.value();
  }
  Position position() { return store_->last_position(); }

  // Calls back from the writer's thread once it has come round: the engine decides, and the disk syncs.
  void when_alive(std::move_only_function<void()> call) {
    runtime_.post([call = std::move(call)](Engine& engine) mutable { engine.when_durable(std::move(call)); });
  }

 private:
  void halt_on_failure(const auto& call) {
    try {
      call();
    } catch (...) {
      halt();
      throw;
    }
  }

  void recover(const EffectiveSettings& settings) {
    toolbox_.catalog.expect_remote_tools();
    toolbox_.agents->tenant_name = [this](TenantId id) {
      auto tenant = directory_.find(id);
      return tenant ? tenant->name : std::string();
    };
    say_sandbox(settings.values);
    reach_out(settings.values);
    feed_.on_cut([this](std::string_view why, const api::FeedFilter& filter) {
      log_.info("a follower of the feed was cut off", {{"why", why}, {"tenant", name_of(filter.tenant)}});
    });
    check_signing_key(settings);
    // Before anything is committed, so that nothing is missed.
    for (Following* each : followings_) each->start();
    runtime_.start();
    carriers_.start();
    for (const Tenant& tenant : store_->tenants()) learn(tenant);
    tenant_ = default_tenant();
    make_signing_key();
    make_admin_key(settings.folder);
    end_leftovers();
    api_.emplace(api::Api::Parts{runtime_, *store_, keys_, directory_, feed_, metrics_, clock_, log_, notary_,
                                 notify_context_, toolbox_.agents->logs,
                                 [this](const Workflow& workflow) { return carriers_.find_target_problem(workflow); }},
                 api::ApiOptions{.in_flight_max = static_cast<std::size_t>(settings.values.requests_max),
                                 .open_requests = open_request_limits(settings.values),
                                 .access_log = settings.values.access_log,
                                 .local_worker = local_worker_of(settings.values)});
  }

  void let_in(const EffectiveSettings& settings) {
    listen(settings.values);
    // Only now: agents are told where to find this server.
    toolbox_.agents->access = [this](const Lease& lease, const std::string& task) {
      return AgentAccess{url_ + "/mcp", keys_.lease_key(lease.tenant, {lease.run, lease.step, lease.token, task})};
    };
    toolbox_.agents->mcp = [this](const std::string& key, const std::string& line) {
      return api_->speak_mcp(key, line);
    };
    toolbox_.agents->resumption = [this](const Lease& lease) { return find_resumption(runtime_, lease); };
    toolbox_.agents->charge = charge_through(runtime_);
    if (settings.values.workers) start_workers();
    background_check_.emplace(background_check_options(settings));
    boost::json::object found_by{{"url", url_}, {"pid", ::getpid()}};
    // Its certificate is for other names than this address, as a rule; who can read the folder knows it by its key.
    if (!settings.values.tls_cert.empty()) found_by["public_key"] = public_key_pin(settings.values.tls_cert);
    if (!settings.values.store.empty()) found_by["keeps_elsewhere"] = true;
    write_private_file(settings.folder / "server.json", boost::json::serialize(found_by) + "\n");
  }

  // Everything waits for a database that is away, and would do so for ever. From shortly before the end of the grace
  // period on, nothing waits any more: then on_failure ends the process. One that answers is given some time more, for
  // what steps report at the end.
  void stop_waiting_in_time(Duration grace, const std::stop_token& stop) {
    SharedStore* shared = store_->shared();
    if (!shared) return;
    const auto begin = std::chrono::steady_clock::now();
    const auto if_away = begin + std::max<Duration>(grace / 2, grace - last_answers_limit);
    const auto in_any_case = begin + grace + last_answers_limit;
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, stop, stop_check_interval, [] { return false; }) && !stop.stop_requested()) {
      auto now = std::chrono::steady_clock::now();
      if (now >= in_any_case || (now >= if_away && !shared->is_reachable())) {
        gave_up_database_ = true;
        return shared->stop_waiting();
      }
    }
  }

  // Whoever follows the journal and waits for the engine then waits no more; what is not done is done after the next
  // start.
  void halt() {
    background_check_.reset();
    keeping_.stop();
    carriers_.stop();
    runtime_.stop();
    for (Following* each : followings_) each->stop();
  }
  std::vector<Following*> all_followings() {
    std::vector<Following*> out = carriers_.followings();
    out.insert(out.end(), {&keeping_, &webhook_following_, &slack_following_, &task_following_});
    return out;
  }

  // Who carries runs elsewhere, by what the settings say.
  providers::CarriersOptions carriers_options(const ServeSettings& settings) {
    providers::CarriersOptions out;
    if (!settings.restate.empty())
      out.restate = providers::RestateOptions{.ingress = without_slash(settings.restate),
                                              .admin = without_slash(settings.restate_admin),
                                              .token = token_in(settings.restate_token_file),
                                              .kill_after = settings.restate_kill_after};
    if (!settings.stepfunctions.empty()) out.stepfunctions = stepfunctions_options(settings.stepfunctions);
    out.following = following_options();
    out.carrier = {
        .interval = settings.provider_interval,
        .lost_after = settings.provider_lost_after,
        .report = [this](const std::string& what) { log_.warning(what); },
        .unknown_state = [this](Provider provider,
                                const std::string& word) { metrics_.unknown_state(to_string(provider), word); },
        .looked = [this](Provider provider, bool succeeded,
                         std::size_t runs) { metrics_.looked(to_string(provider), succeeded, runs); }};
    return out;
  }
  static providers::StepFunctionsOptions stepfunctions_options(const std::string& setting) {
    providers::StepFunctionsOptions out{.endpoint = find_aws_endpoint(setting == "aws" ? "" : setting, "SFN"),
                                        .access = find_aws_access()};
    if (!out.access.is_complete())
      throw Stop(
          exit_usage,
          "stepfunctions: there are no credentials for AWS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a "
          "profile");
    return out;
  }
  static std::string without_slash(std::string url) {
    while (url.ends_with('/')) url.pop_back();
    return url;
  }
  static std::string token_in(const std::string& file) {
    if (file.empty()) return {};
    std::string token = read_whole_file(file);
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
    if (token.empty()) throw Stop(exit_not_found, fmt::format("restate_token_file: there is no token in {}", file));
    return token;
  }

  // What the parts that tell others of events work with.
  void reach_out(const ServeSettings& settings) {
    notify_context_.find_tenant = [this](TenantId id) { return directory_.find(id); };
    notify_context_.runtime = &runtime_;
    notify_context_.store = store_.get();
    notify_context_.count = [this](std::string_view channel, notify::Delivery outcome) {
      metrics_.sent(channel, to_string(outcome));
    };
    notify_context_.report = [this](const std::string& what) { log_.warning(what); };
    notify_context_.find_secret = [this](const Tenant& tenant, const std::optional<OwnSecret>& secret) {
      return secret ? toolbox_.secrets->find(tenant.name, secret->name())
                    : std::unexpected(std::string("it is not set any more"));
    };
    notify_context_.rules.body_bytes_max = notify::answer_bytes_max;
    for (const std::string& text : settings.http_allow)
      if (auto allow = parse_http_allow(text)) notify_context_.rules.allow.push_back(*allow);
  }

  // Steps that ask for a sandbox "where it can be had" run without one then: nobody should learn that from an accident.
  void say_sandbox(const ServeSettings& settings) {
    if (!settings.workers) return;
    if (settings.sandbox == SandboxUse::off)
      log_.warning("the setting sandbox is off: programs of tenant default run as the user of this server");
    const auto& available = toolbox_.agents->sandbox->is_available();
    if (available) return log_.info("programs can be sandboxed", {{"sandbox", to_string(settings.sandbox)}});
    log_.warning(
        settings.sandbox == SandboxUse::required
            ? "no sandbox works here: steps that run programs fail with SANDBOX_UNAVAILABLE"
            : "no sandbox works here: agents of tenant default run without one, as the user of this server, and "
              "steps that demand one fail; install bubblewrap and allow user namespaces, or set sandbox: "
              "required",
        {{"sandbox", to_string(settings.sandbox)}, {"why", available.error()}});
  }

  void learn(const Tenant& tenant) {
    directory_.update(tenant);
    keys_.update(tenant);
  }
  // On the writer thread, before anybody is answered.
  void learn(Frame& frame) {
    for (const TenantFold& fold : frame.tenants) learn(fold.tenant);
    if (store_->shared()) return;
    for (Following* each : followings_) each->publish(frame);
    feed_.publish(frame);
  }

  // Asked to stop while the database was away, and it did not come back in time. Nothing is lost that was acknowledged.
  [[noreturn]] void end_without_database(const fs::path& folder, const std::string& reason) {
    log_.warning("stopped while the database was away; what was not acknowledged is not done", {{"reason", reason}});
    log_.flush();
    remove_address(folder);
    std::_Exit(exit_success);
  }

  RuntimeOptions runtime_options(const EffectiveSettings& effective, std::set<Provider> foreign) {
    const ServeSettings& settings = effective.values;
    const fs::path& folder = effective.folder;
    return {.limits = {.working_set_bytes_max = settings.working_set,
                       .foreign = std::move(foreign),
                       .rules = settings.rules},
            .on_failure =
                [this, folder](const std::string& reason) {
                  if (gave_up_database_) end_without_database(folder, reason);
                  log_.error(
                      "the store failed; stopped, because nothing after this could be trusted. What was acknowledged "
                      "is in the journal: mend the cause and start again",
                      {{"reason", reason}});
                  log_.flush();
                  std::_Exit(exit_store_failure);
                },
            .on_durable = [this](Frame& frame) { learn(frame); },
            .on_commit =
                [this](std::chrono::nanoseconds took, std::size_t frames) {
                  metrics_.committed(took, frames);
                  if (took >= slow_commit)
                    log_.warning("a commit was slow",
                                 {{"milliseconds", took / std::chrono::milliseconds(1)}, {"frames", frames}});
                },
            .on_lease_lost = [this](const Run& run, StepIndex step) { say_lease_lost(run, step); },
            .on_tenant = [this](const Tenant& tenant) { learn(tenant); },
            .on_events =
                [this] {
                  feed_.look();
                  for (Following* each : followings_) each->look();
                },
            .on_damage =
                [this](const std::string& subject, const std::string& what) {
                  say_damage_once(subject + what, {subject, 0, what});
                }};
  }

  // Before anything is made that would take the place of what is missing.
  std::string own_secret(const EffectiveSettings& settings) {
    const KeyFiles files = key_files_of(settings);
    const std::vector<Tenant> tenants = store_->tenants();
    if (auto problem = journal_problem(tenants, settings)) throw Stop(exit_not_found, *problem);
    if (auto problem = key_files_problem(tenants, files)) {
      if (!settings.values.accept_lost_keys)
        throw Stop(exit_not_found,
                   fmt::format("{}. To start all the same, set accept_lost_keys: what the lost file was for stays lost",
                               *problem));
      log_.warning("started without keys that the journal was made with", {{"problem", *problem}});
    }
    return open_secret(files.secret);
  }
  static std::unique_ptr<Artifacts> artifacts_of(const EffectiveSettings& settings) {
    try {
      return make_artifacts(settings.values.artifacts, settings.values.artifacts_endpoint,
                            settings.folder / "evidence");
    } catch (const ArtifactFailure& failure) {
      throw Stop(exit_usage, failure.what());
    }
  }
  FollowingOptions following_options() {
    return {.report = [this](const std::string& what) { log_.warning(what); }};
  }
  FollowingOptions keeping_options() {
    FollowingOptions out = following_options();
    out.batch_bytes_max = 16 << 20;
    out.report = [this](const std::string& what) {
      if (!stopping_) log_.warning(what, {});
    };
    return out;
  }
  static void check_signing_key(const EffectiveSettings& settings) {
    try {
      const fs::path file = key_files_of(settings).signing_key;
      if (fs::exists(file)) read_signing_keys(file);
    } catch (const KeyFileFailure& failure) {
      throw Stop(exit_store_failure, failure.what());
    }
  }
  // Not before the first tenant is in the journal: keys without a journal are those of one that is lost.
  void make_signing_key() {
    try {
      notary_.keys();
    } catch (const KeyFileFailure& failure) {
      throw Stop(exit_store_failure, failure.what());
    }
  }

  void say_lease_lost(const Run& run, StepIndex step) {
    auto held_back = lost_leases_.admit();
    if (!held_back) return;
    log_.warning(is_in_process(run.steps[step]) ? "the lease of a server that is gone was released"
                                                : "a worker was not heard of in time; its step waits for another",
                 {{"run", run.id.str()},
                  {"step", run.definition(step).id.text},
                  {"worker", run.steps[step].lease_owner.text},
                  {"attempt", run.steps[step].attempts},
                  {"not_logged", *held_back}});
  }

  std::expected<std::string, NoSecret> find_secret(const SecretRequest& request) const {
    auto tenant = directory_.find(request.tenant);
    if (!tenant) return std::unexpected(NoSecret{"the tenant is not known here"});
    return toolbox_.find_secret(*tenant, request);
  }

  std::string name_of(TenantId id) const {
    auto tenant = directory_.find(id);
    return tenant ? tenant->name : id.str();
  }

  void listen(const ServeSettings& settings) {
    http::ServerOptions server{.address = settings.listen.host, .port = settings.listen.port};
    server.origins = settings.origin;
    server.hosts = settings.host;
    if (!settings.tls_cert.empty()) server.tls = {settings.tls_cert, settings.tls_key};
    server.connections_max = static_cast<std::size_t>(settings.connections_max);
    server.unknown_connections_max = unknown_connections_max(settings);
    server.header_bytes_max = settings.header_max;
    server.body_bytes_max = settings.body_max;
    server.buffered_bytes_max = settings.bodies_max;
    server.channel_bytes_max = settings.feed_max;
    server.header_timeout = settings.header_timeout;
    server.body_timeout = settings.body_timeout;
    server.idle_timeout = settings.idle_timeout;
    server.write_timeout = settings.write_timeout;
    try {
      server_.emplace(server, *api_);
    } catch (const std::runtime_error& error) {
      throw Stop(exit_usage, error.what());
    }
    server_->start();
    url_ = fmt::format("{}://{}", server.tls ? "https" : "http", print_listen({settings.listen.host, server_->port()}));
    if (!server.tls && !is_loopback(settings.listen.host))
      log_.warning(
          "keys and data cross the network in the clear: set tls_cert and tls_key, or put a proxy with TLS in front");
  }

  TenantId default_tenant() {
    auto tenant = runtime_.ask(CreateTenant{"default", Actor{"engine"}});
    if (!tenant) throw Stop(exit_internal, tenant.error().message);
    return *tenant;
  }

  void make_admin_key(const fs::path& folder) {
    fs::path path = folder / "admin.key";
    std::string text = read_whole_file(path);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (!text.empty() && keys_.authenticate(text, clock_.now())) return;
    if (!text.empty()) keep_admin_key(path);
    api::NewKey made = keys_.make(clock_.now());
    KeyCreated created{made.id, "admin", Role::admin, made.secret_hash, end_of_time, made.secret_id};
    auto done = runtime_.ask(TenantRequest{tenant_, created, Actor{"engine"}});
    if (!done) throw Stop(exit_internal, done.error().message);
    write_private_file(path, made.text + "\n");
  }

  // One of another installation, revoked, or made with a secret that is lost.
  void keep_admin_key(const fs::path& path) {
    fs::path kept = path;
    for (int number = 1; fs::exists(kept); ++number) kept = fmt::format("{}.old-{}", path.string(), number);
    fs::rename(path, kept);
    log_.warning(
        "admin.key was not a key of this installation that is valid; it was kept under another name, and a "
        "new one was made",
        {{"kept", kept.string()}});
  }

  // Programs that a server on this folder had started, and that its sudden death left behind; logs that nobody wants.
  void end_leftovers() {
    if (const int ended = toolbox_.agents->ledger.end_leftovers(); ended > 0)
      log_.warning("ended processes that an earlier server had left behind", {{"processes", ended}});
    log_sweeper_ = std::jthread([this](std::stop_token stop) {
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      do {
        try {
          if (const int swept = toolbox_.agents->logs.sweep(clock_.now()); swept > 0)
            log_.info("deleted old logs of agents", {{"runs", swept}});
        } catch (const std::exception& error) {
          log_.warning("the logs of agents cannot be looked through", {{"reason", error.what()}});
        }
      } while (!wake.wait_for(lock, stop, log_sweep_interval, [] { return false; }) && !stop.stop_requested());
    });
  }

  void say_damage(const Problem& problem) {
    metrics_.found_damage();
    log_.error("what is stored is not what the journal says; it is not served any more. pawl verify names everything",
               {{"subject", problem.subject}, {"seq", problem.seq}, {"what", problem.what}});
  }

  // From any thread.
  void say_damage_once(const std::string& name, const Problem& problem) {
    {
      std::lock_guard lock(damaged_mutex_);
      if (!damaged_.insert(name).second) return;
    }
    say_damage(problem);
  }

  BackgroundCheckOptions background_check_options(const EffectiveSettings& settings) {
    BackgroundCheckOptions out{.bytes_per_second = settings.values.verify_rate,
                               .interval = settings.values.verify_interval};
    if (settings.values.store.empty())
      out.open_view = [folder = settings.folder] { return SqliteStore::open_view(folder); };
    else
      out.open_view = [url = settings.values.store] { return PostgresStore::open_view(url); };
    // Each thing is said once.
    out.on_tenant_damage = [this](const Problem& problem) { say_damage_once(problem.subject + problem.what, problem); };
    out.on_unfound_effect = [this](const ReceiptRow& receipt) {
      if (auto* guarded = dynamic_cast<GuardedStore*>(store_.get())) guarded->hold_key(receipt);
    };
    out.on_run_damage = [this](RunId run, const Problem& problem) {
      if (auto* guarded = dynamic_cast<GuardedStore*>(store_.get())) return guarded->hide(run, problem.what);
      say_damage_once(problem.subject, problem);
    };
    out.on_pass = [this] { metrics_.verified_all(); };
    out.on_failure = [this](const std::string& reason) {
      // A view of the database ends with its connection, which says nothing about what is stored.
      if (store_->shared()) return log_.warning("the check in the background was interrupted", {{"reason", reason}});
      metrics_.found_damage();
      log_.error("what is stored cannot be read", {{"reason", reason}});
    };
    return out;
  }

  std::vector<ToolName> tool_names() const {
    std::vector<ToolName> names;
    for (const auto& tool : toolbox_.tools) names.push_back(tool->spec().name);
    return names;
  }
  // As tenants see it, without the tools that are pawl's own.
  api::LocalWorker local_worker_of(const ServeSettings& settings) const {
    api::LocalWorker out{.name = worker_, .tools = {}, .since = clock_.now()};
    if (settings.workers)
      for (const ToolName& name : tool_names())
        if (!is_reserved_name(name.text)) out.tools.push_back(name);
    return out;
  }

  void start_workers() {
    runtime_.post([this, names = tool_names()](Engine& engine) { engine.add_worker(worker_, names, pool_, true); });
    pool_.start(runtime_);
  }

  Log& log_;
  LogThrottle lost_leases_;
  notify::NotifyContext notify_context_;
  Toolbox toolbox_;
  HeldFolder held_folder_;
  std::unique_ptr<Store> store_;
  ServiceClock clock_;
  api::KeyRing keys_;
  api::Directory directory_;
  api::Feed feed_;
  api::Metrics metrics_;
  std::mutex damaged_mutex_;
  std::set<std::string> damaged_;  // what was said of it
  Runtime runtime_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> gave_up_database_ = false;  // while stopping
  Notary notary_;
  std::unique_ptr<Artifacts> artifacts_;
  EvidenceFollower keeper_;
  Following keeping_;
  notify::WebhookFollower webhooks_{notify_context_};
  notify::SlackFollower slack_{notify_context_};
  Following webhook_following_{*store_, webhooks_, following_options()};
  Following slack_following_{*store_, slack_, following_options()};
  TaskFollower tasks_{runtime_, *store_};
  Following task_following_{*store_, tasks_, following_options()};
  providers::Carriers carriers_;
  const std::vector<Following*> followings_ = all_followings();
  WorkerName worker_;
  PolicyGate gate_{runtime_};
  WorkerPool pool_;
  TenantId tenant_;
  std::optional<api::Api> api_;
  std::optional<http::Server> server_;
  std::string url_;
  std::jthread log_sweeper_;
  std::optional<BackgroundCheck> background_check_;
};

// Waits for a signal, and tells the service manager every now and then that the service comes round.
int wait_for_signal(StopSignals& signals, const ServiceManager& manager, Service& service) {
  if (!manager.watchdog()) return signals.wait();
  auto alive = std::make_shared<std::atomic<bool>>(true);
  while (true) {
    if (alive->exchange(false)) {
      manager.say("WATCHDOG=1");
      service.when_alive([alive] { *alive = true; });
    }
    if (auto signal = signals.wait(*manager.watchdog() / 3)) return *signal;
  }
}

EffectiveSettings settings_of(const ServeOptions& options) {
  SettingSources sources{.flags = {}, .config = options.config, .environment = environment_variable};
  for (const auto& [name, texts] : options.given) sources.flags.push_back({name, texts});
  return read_settings(sources);
}

void say_start(Log& log, const EffectiveSettings& settings, Service& service, const EngineStats& recovered) {
  log.info("serving", {{"url", service.url()},
                       {"version", PAWL_VERSION},
                       {"data", settings.folder.string()},
                       {"config", settings.file.empty() ? "none" : settings.file},
                       {"position", service.position()},
                       {"runs_recovered", recovered.runs_recovered},
                       {"runs_in_memory", recovered.runs_resident},
                       {"steps_queued", recovered.steps_queued},
                       {"leases_open", recovered.leases_open},
                       {"admin_key", (settings.folder / "admin.key").string()}});
}

}  // namespace

ExitCode serve(const ServeOptions& options) {
  EffectiveSettings settings = settings_of(options);
  if (options.print_config) {
    fmt::print("{}", print_settings(settings));
    return exit_success;
  }
  const ServeSettings& values = settings.values;
  SecretVariables secrets = take_secret_variables();
  StopSignals signals;
  ServiceManager manager;
  ::signal(SIGPIPE, SIG_IGN);
  auto usual_format = ::isatty(STDERR_FILENO) ? LogFormat::text : LogFormat::json;
  Log log({.format = values.log_format.value_or(usual_format), .level = values.log_level});
  make_room_for(values, log);
  {
    // Starting waits for the database, which may be away: nothing has begun yet that would have to be ended.
    auto meanwhile = signals.end_process_meanwhile([&](int signal) {
      log.info("stopped before it had started", {{"signal", std::string("SIG") + sigabbrev_np(signal)}});
      log.flush();
    });
    Service service(settings, std::move(secrets), log);
    const EngineStats recovered = service.stats();
    // From here on a signal ends what clients have begun in the orderly way.
    meanwhile = {};
    service.open(settings);
    say_start(log, settings, service, recovered);
    manager.say("READY=1");
    int signal = wait_for_signal(signals, manager, service);
    manager.say("STOPPING=1");
    log.info("stopping; a second signal ends it at once",
             {{"signal", std::string("SIG") + sigabbrev_np(signal)}, {"grace", print_duration(values.grace)}});
    signals.next_one_ends();
    service.stop(values.grace);
    remove_address(settings.folder);
  }
  log.info("stopped");
  return exit_success;
}

}  // namespace pawl
