// All of a server but its sockets: the real routes over an engine with its threads, on a store in memory. One tenant
// with a key for every role, and a neighbour. Time stands still until wait() moves it.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <optional>

#include "api/api.h"
#include "cli/verification.h"
#include "evidence/notary.h"
#include "fuzz.h"
#include "some_workflow.h"
#include "store/crash_vfs.h"
#include "store/sqlite/sqlite_store.h"
#include "support/waiting.h"
#include "tools/run_logs.h"

namespace pawl::fuzz {

class MovedClock : public Clock {
 public:
  Instant now() const override { return {now_.load()}; }
  void pass(Duration span) { now_ += span.count(); }

 private:
  std::atomic<std::int64_t> now_ = 1'800'000'000'000;
};

// Keeps what it is sent.
class KeptMessages : public http::Channel {
 public:
  bool push(std::shared_ptr<const Message> message) override {
    std::lock_guard lock(mutex_);
    messages_.push_back(*message);
    return !ended_;
  }
  bool has_room() override { return true; }
  void on_room(std::function<void()>) override {}
  void cut_off() override { ended_ = true; }
  void end(std::string_view, std::string_view) override { ended_ = true; }
  bool is_open() const override { return !ended_; }
  std::vector<Message> end() {
    ended_ = true;
    std::lock_guard lock(mutex_);
    return messages_;
  }

 private:
  std::mutex mutex_;
  std::vector<Message> messages_;
  std::atomic<bool> ended_ = false;
};

class FuzzServer {
 public:
  FuzzServer() : keys_(std::string(32, 's')) {
    tools_.add({.name = {"work"},
                .keys = {{.name = "from"}, {.name = "at"}, {.name = "attempt"}},
                .writes = ToolSpec::Writes::never});
    tools_.add({.name = {"write"}, .keys = {}, .writes = ToolSpec::Writes::always});
    tools_.expect_remote_tools();
    SqliteOptions options;
    options.folder = "server";
    options.vfs = disk_.vfs();
    options.single_connection = true;
    store_.emplace(options);
    open();
    settle();
  }
  ~FuzzServer() { close(); }

  // The key of "admin", "operator", "approver", "worker", "viewer" or "neighbour"; empty when there is no such.
  std::string key(std::string_view who) const {
    const auto found = key_texts_.find(who);
    return found == key_texts_.end() ? std::string() : found->second;
  }
  // Behind it, all that time does has been done.
  void wait(Duration span) {
    clock_.pass(span);
    for (int turn = 0; turn < 2; ++turn) {
      std::promise<void> done;
      open_->runtime.post([&done](Engine& engine) {
        engine.advance();
        engine.when_durable([&done] { done.set_value(); });
      });
      done.get_future().wait();
    }
  }

  http::Response ask(http::Request request) {
    auto promise = std::make_shared<std::promise<http::Response>>();
    auto answer = promise->get_future();
    open_->api.handle(std::move(request), [promise = std::move(promise)](http::Response response) {
      promise->set_value(std::move(response));
    });
    // A poll that waits for work is let go; its client would have gone on waiting.
    for (int i = 0; answer.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready; ++i) {
      check(i < hang_limit / std::chrono::milliseconds(10), "every request is answered");
      open_->runtime.post([](Engine& engine) { engine.end_polls(); });
    }
    try {
      return answer.get();
    } catch (const std::future_error&) {
      throw Broken("does not hold: every request is answered, none is dropped");
    }
  }

  // The process ends in good order, and another one begins.
  void restart() {
    close();
    open();
  }

  // Every stream and every table, as `pawl verify` would. The server is closed for it.
  void verify() {
    close();
    std::string problems;
    Verification(*store_,
                 [&](const Problem& problem) {
                   problems += problem.subject + " " + std::to_string(problem.seq) + ": " + problem.what + "\n";
                 },
                 {})
        .check();
    check_equal(problems, "", "the journal and the tables are sound");
  }

 private:
  // What lives as long as a process would.
  struct Process {
    explicit Process(FuzzServer& server)
        : feed(*server.store_, server.keys_.derive_secret("feed positions")),
          runtime(*server.store_, server.tools_, server.clock_,
                  {.limits = {},
                   .seed = 7,
                   .on_failure = {},
                   .on_durable =
                       [this, &server](Frame& frame) {
                         for (const TenantFold& fold : frame.tenants) server.learn(fold.tenant);
                         feed.publish(frame);
                       },
                   .on_commit = {}}),
          notary({runtime, *server.store_, server.clock_,
                  std::filesystem::temp_directory_path() / ("pawl-server-" + std::to_string(::getpid()) + ".json")}),
          api({runtime, *server.store_, server.keys_, server.directory_, feed, metrics, server.clock_, log, notary,
               notify_context, logs}) {
      notify_context.find_tenant = [&server](TenantId id) { return server.directory_.find(id); };
      notify_context.runtime = &runtime;
    }

    api::Feed feed;
    api::Metrics metrics;
    Log log{{.format = LogFormat::text, .level = LogLevel::error}};
    notify::NotifyContext notify_context{.find_secret = [](const Tenant&, const std::optional<OwnSecret>&) {
      return std::expected<std::string, std::string>(std::unexpected("there are no secrets here"));
    }};
    RunLogs logs{"/nowhere"};
    Runtime runtime;
    Notary notary;
    api::Api api;
  };

  void learn(const Tenant& tenant) {
    directory_.update(tenant);
    keys_.update(tenant);
  }
  void open() {
    open_.emplace(*this);
    open_->runtime.start();
    for (const Tenant& tenant : store_->tenants()) learn(tenant);
  }
  void close() {
    if (!open_) return;
    open_->runtime.post([](Engine& engine) { engine.end_polls(); });
    open_->runtime.stop();
    open_.reset();
  }

  void settle() {
    const Actor by{"engine"};
    const auto done = open_->runtime.ask<WorkflowRef>([&](Engine& engine, Reply<WorkflowRef> reply) {
      engine.request(CreateTenant{"default", by});
      engine.request(CreateTenant{"neighbour", by});
      const auto own = *engine.find_tenant("default");
      for (const std::string_view role : enum_names<Role>) add_key(engine, own, role, *parse_enum<Role>(role));
      add_key(engine, *engine.find_tenant("neighbour"), "neighbour", Role::admin);
      engine.request(PublishWorkflow{own, std::string(some_workflow_source), "w", by}, std::move(reply));
    });
    check(done.has_value(), "a server can be settled");
  }
  void add_key(Engine& engine, TenantId tenant, std::string_view name, Role role) {
    const api::NewKey made = keys_.make(clock_.now());
    key_texts_[std::string(name)] = made.text;
    engine.request(TenantRequest{tenant, KeyCreated{made.id, std::string(name), role, made.secret_hash, end_of_time},
                                 Actor{"engine"}});
  }

  ToolCatalog tools_;
  MovedClock clock_;
  test::CrashDisk disk_;
  std::optional<SqliteStore> store_;
  api::KeyRing keys_;
  api::Directory directory_;
  std::map<std::string, std::string, std::less<>> key_texts_;
  std::optional<Process> open_;
};

}  // namespace pawl::fuzz
