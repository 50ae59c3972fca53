// An engine on a data folder for as long as one command needs it: store, tools, workers and runtime, wired by hand.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/carrier.h"
#include "cli/commands.h"
#include "cli/focus.h"
#include "cli/folder.h"
#include "cli/settings.h"
#include "engine/runtime.h"
#include "process/descriptor.h"
#include "secrets/secrets.h"
#include "tools/gate.h"
#include "tools/tools.h"
#include "tools/worker_pool.h"

namespace pawl {

// The tools that workflows may name here, and the secrets that they are given.
struct Toolbox {
  // Without a folder there are no agents.
  explicit Toolbox(const ServeSettings& settings = {}, SecretVariables variables = {},
                   const std::filesystem::path& folder = {});

  std::shared_ptr<AgentContext> agents;  // null without a folder
  InstallationRules rules;
  std::unique_ptr<Secrets> secrets;
  std::vector<std::unique_ptr<Tool>> tools;
  ToolCatalog catalog;

  // For a step, when it may be used so.
  std::expected<std::string, NoSecret> find_secret(const Tenant& tenant, const SecretRequest& request) const;
};
// For a command that carries steps out itself. Takes the secrets out of the environment, so: once, and before threads.
Toolbox toolbox_for(const ProgressFlags& flags);
// A server has settings of its own.
void refuse_settings_of_runs(const ProgressFlags& flags);

// Opens for writing and folds what a process that died left in frames, so that the tables know every run.
std::unique_ptr<SqliteStore> open_folded(const std::filesystem::path& folder, const Toolbox& toolbox);

class Session final : public Carrier {
 public:
  // Goes on with `runs` only, and with those it makes itself; absent = with all. `store` comes from open_folded().
  Session(Store& store, const Toolbox& toolbox, std::optional<std::set<RunId>> runs);
  ~Session() override;

  // Without workers until this is called: commands are decided, no step runs.
  void start() override;
  // Ends the tools at once, gives back what they did not finish, then finishes what has been decided. The folder is
  // then at rest.
  void stop() override;

  Runtime& runtime() { return runtime_; }
  TenantId tenant() const { return tenant_; }

  int news_fd() const override { return news_.fd(); }
  std::vector<RunNews> take_news() override { return news_.take(); }
  std::expected<void, NotTaken> resolve(const Run& run, const Decided& decided) override;
  std::expected<void, NotTaken> answer(const Run& run, const Answered& answered) override;

 private:
  void collect(const Frame& frame);
  const Tenant* find_tenant(TenantId tenant) const;

  const Toolbox& toolbox_;
  FocusedStore store_;
  SystemClock clock_;
  NewsBox news_;
  Runtime runtime_;
  PolicyGate gate_{runtime_};
  WorkerPool pool_;
  bool workers_started_ = false;
  TenantId tenant_;
  std::map<TenantId, Tenant> tenants_;
};

}  // namespace pawl
