#include "cli/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/files.h"
#include "cli/startup_check.h"
#include "cli/terminal.h"
#include "tools/prices.h"

namespace pawl {
namespace {

// Leases held at once. As many as there are threads: a lease that queues behind others runs against its own time-out.
constexpr int slots_max = 64;

void end_process(const std::string& reason) {
  restore_terminal();
  write_all(STDERR_FILENO, fmt::format("\npawl: {}\npawl: stopped, because nothing after this point could be trusted; "
                                       "everything that was acknowledged is in the journal. Mend the cause, then go "
                                       "on with pawl resume.\n",
                                       reason));
  std::_Exit(exit_store_failure);
}

bool has_unfolded_runs(Store& store) {
  bool found = false;
  store.for_each_frame([&](Position, std::string_view parts) {
    for_each_part(parts, [&](const StreamPart& part) { found = found || !part.key.is_tenant(); });
  });
  return found;
}

std::shared_ptr<AgentContext> agent_context_of(const ServeSettings& settings, const std::filesystem::path& folder) {
  if (folder.empty()) return nullptr;
  LogLimits logs{.stream_bytes_max = settings.log_max, .all_bytes_max = settings.logs_max, .keep = settings.logs_keep};
  logs.piece_bytes_max = std::min(logs.piece_bytes_max, settings.log_max / 4);
  auto agents = std::make_shared<AgentContext>(std::filesystem::absolute(folder), logs);
  agents->claude = settings.claude;
  std::error_code error;
  agents->program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  agents->sandbox = std::make_unique<Sandbox>(settings.bwrap);
  agents->sandbox_use = settings.sandbox;
  agents->sandbox_limits.memory_bytes_max = settings.sandbox_memory;
  agents->sandbox_limits.processes_max = settings.sandbox_processes;
  agents->sandbox_limits.files_max = settings.sandbox_files;
  agents->sandbox_readable = settings.sandbox_readable;
  agents->sandbox_writable = settings.sandbox_writable;
  agents->rules = settings.rules;
  agents->own_variables = own_variables(settings);
  // Until somebody says who is who, nobody may run programs.
  agents->tenant_name = [](TenantId) { return std::string(); };
  return agents;
}

ToolLimits limits_of(const ServeSettings& settings, std::shared_ptr<const AgentContext> agents) {
  ToolLimits limits;
  limits.agents = std::move(agents);
  for (const std::string& text : settings.http_allow)
    if (auto allow = parse_http_allow(text)) limits.http_allow.push_back(*allow);
  if (!settings.prices.empty()) {
    auto prices = Prices::read(read_whole_file(settings.prices));
    if (!prices) throw Stop(exit_usage, fmt::format("prices: {} {}", settings.prices, prices.error()));
    limits.prices = std::make_shared<const Prices>(std::move(*prices));
  }
  return limits;
}

TenantId default_tenant(Runtime& runtime) {
  auto tenant = runtime.ask(CreateTenant{"default", this_person()});
  if (!tenant) throw Stop(exit_internal, tenant.error().message);
  return *tenant;
}

}  // namespace

Toolbox::Toolbox(const ServeSettings& settings, SecretVariables variables, const std::filesystem::path& folder)
    : agents(agent_context_of(settings, folder)),
      rules(settings.rules),
      secrets(std::make_unique<Secrets>(SecretSources{
          .command = settings.secrets_command, .folder = settings.secrets_folder, .variables = std::move(variables)})),
      tools(built_in_tools(limits_of(settings, agents))),
      catalog(catalog_of(tools)) {}

std::expected<std::string, NoSecret> Toolbox::find_secret(const Tenant& tenant, const SecretRequest& request) const {
  auto problem = TenantRules(rules, tenant).secret_problem({request.secret, request.workflow.text, request.tool.str()});
  if (problem) return std::unexpected(NoSecret{.message = std::move(*problem), .is_forbidden = true});
  return secrets->look(tenant.name, request.secret);
}

Toolbox toolbox_for(const ProgressFlags& flags) {
  SettingSources sources{.flags = {}, .config = {}, .environment = environment_variable, .for_runs = true};
  for (const auto& [name, texts] : flags.given) sources.flags.push_back({name, texts});
  if (!flags.data.empty()) sources.flags.push_back({"data", {flags.data}});
  const EffectiveSettings settings = read_settings(sources);
  Toolbox out(settings.values, take_secret_variables(), settings.folder);
  out.agents->own_paths = own_paths(settings);
  return out;
}

void refuse_settings_of_runs(const ProgressFlags& flags) {
  for (const auto& [name, texts] : flags.given)
    for (const Setting& setting : serve_settings())
      if (setting.name == name)
        throw Stop(exit_usage,
                   fmt::format("{}: a server carries the steps out, and this is a setting of its own", setting.flag()));
}

std::unique_ptr<SqliteStore> open_folded(const std::filesystem::path& folder, const Toolbox& toolbox) {
  auto store = open_to_write(folder);
  check_at_start(*store, folder.string(), fmt::format("{} verify {}", this_program(), location_of(folder).flags));
  if (!has_unfolded_runs(*store)) return store;
  SystemClock clock;
  Random random(0);
  Engine engine(*store, toolbox.catalog, clock, random);
  engine.complete_tables();
  Turn turn = engine.take_turn();
  if (turn.needs_commit) store->commit({&turn.frame, 1});
  return store;
}

Session::Session(Store& store, const Toolbox& toolbox, std::optional<std::set<RunId>> runs)
    : toolbox_(toolbox),
      store_(store, std::move(runs)),
      runtime_(store_, toolbox.catalog, clock_,
               {.limits = {.rules = toolbox.rules},
                .on_failure = end_process,
                .on_durable = [this](const Frame& frame) { collect(frame); }}),
      pool_({.worker = {fmt::format("{}{}", local_worker_prefix, ::getpid())},
             .slots = slots_max,
             .threads_max = slots_max,
             .clock = [this] { return clock_.now(); },
             .secrets = [this](const SecretRequest& request) -> std::expected<std::string, NoSecret> {
               const Tenant* tenant = find_tenant(request.tenant);
               if (!tenant) return std::unexpected(NoSecret{"the tenant is not known here"});
               return toolbox_.find_secret(*tenant, request);
             }},
            toolbox.tools, gate_) {
  runtime_.start();
  tenant_ = default_tenant(runtime_);
  for (Tenant& tenant : store.tenants()) tenants_[tenant.id] = std::move(tenant);
  if (auto [made, is_new] = tenants_.try_emplace(tenant_); is_new) {
    made->second.id = tenant_;
    made->second.name = installation_tenant;
  }
}

Session::~Session() { stop(); }

void Session::start() {
  if (toolbox_.agents) {
    toolbox_.agents->ledger.end_leftovers();
    toolbox_.agents->charge = charge_through(runtime_);
    toolbox_.agents->resumption = [this](const Lease& lease) { return find_resumption(runtime_, lease); };
    toolbox_.agents->tenant_name = [this](TenantId id) {
      const Tenant* tenant = find_tenant(id);
      return tenant ? tenant->name : std::string();
    };
  }
  std::vector<ToolName> names;
  for (const auto& tool : toolbox_.tools) names.push_back(tool->spec().name);
  WorkerName worker{fmt::format("{}{}", local_worker_prefix, ::getpid())};
  runtime_.post([this, worker, names](Engine& engine) { engine.add_worker(worker, names, pool_); });
  pool_.start(runtime_);
  workers_started_ = true;
}

void Session::stop() {
  if (std::exchange(workers_started_, false)) {
    runtime_.wind_down();
    pool_.stop();
  }
  runtime_.stop();
}

const Tenant* Session::find_tenant(TenantId tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? nullptr : &found->second;
}

void Session::collect(const Frame& frame) {
  for_each_part(frame.parts, [&](const StreamPart& part) {
    if (!part.key.is_tenant()) news_.add({RunId{part.key.stream}, part.first_seq, std::string(part.lines)});
  });
}

std::expected<void, NotTaken> Session::resolve(const Run& run, const Decided& decided) {
  ResolveApproval command{decided.approval, decided.approve, this_person(), decided.reason};
  auto answer = runtime_.ask(RunRequest{run.tenant, run.id, command});
  if (!answer) return std::unexpected(NotTaken{answer.error().message});
  return {};
}

std::expected<void, NotTaken> Session::answer(const Run& run, const Answered& answered) {
  auto answer =
      runtime_.ask(RunRequest{run.tenant, run.id, AnswerQuestion{answered.step, answered.answer, this_person()}});
  if (!answer) return std::unexpected(NotTaken{answer.error().message});
  return {};
}

}  // namespace pawl
