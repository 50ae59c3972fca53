#include "providers/carrier.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <stdexcept>

#include "core/notices.h"
#include "engine/countdown.h"
#include "yaml/yaml.h"

namespace pawl::providers {
namespace {

constexpr std::size_t at_once_max = 200;
constexpr std::size_t live_page = 500;
// Looking takes at most a quarter of the time.
constexpr int looking_share = 4;
constexpr Duration pause_max = std::chrono::seconds(30);
// Who takes over looks back so far, and through so many, for what its predecessor had not stopped for good.
constexpr Duration away_max = std::chrono::hours(24);
constexpr std::size_t ended_rows_max = 100'000;
constexpr std::size_t unknown_max = 50;
constexpr std::size_t unknown_bytes_max = 64;

Carried carried_of(const Run& run) {
  return {.tenant = run.tenant,
          .run = run.id,
          .target = run.workflow->target,
          .key = run.workflow->target.key.empty() ? std::string() : render_target_key(run).value_or(""),
          .input = run.input,
          .id = run.foreign->id,
          .ended_at = run.finished_at};
}

std::shared_ptr<const Diagnostic> diagnosed(std::string_view code, std::string message, Instant now) {
  return std::make_shared<const Diagnostic>(diagnose(code, std::move(message), now));
}

template <class T>
std::vector<T> take_some(std::vector<T>& all) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(all.size(), at_once_max));
  std::vector<T> out(std::make_move_iterator(all.end() - count), std::make_move_iterator(all.end()));
  all.resize(all.size() - out.size());
  return out;
}

}  // namespace

Carrier::Carrier(Runtime& runtime, Store& store, const Clock& clock, Client& client, CarrierOptions options)
    : runtime_(runtime), store_(store), clock_(clock), client_(client), options_(std::move(options)) {}

Carrier::~Carrier() { stop(); }

void Carrier::start() {
  thread_ = std::thread([this] { look_again_and_again(); });
  pthread_setname_np(thread_.native_handle(),
                     ("pawl-" + std::string(to_string(client_.provider()))).substr(0, 15).c_str());
}

void Carrier::stop() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  client_.give_up();
  if (thread_.joinable()) thread_.join();
}

// ---- Handing over

void Carrier::see(const JournalEvent& event) {
  if (event.stream.is_tenant()) return;
  const Key key{event.stream.tenant, event.run()};
  std::lock_guard lock(acting_mutex_);
  if (event.header.type == "run.created") {
    if (event.header.provider == client_.provider()) to_start_.insert(key);
  } else if (event.header.tells == client_.provider()) {
    (event.header.subject() == "approval" ? to_tell_ : to_stop_).insert(key);
  }
}

// There may be nothing to see for long, so what is found to be owed is done by the thread that looks.
void Carrier::took_over() {
  std::lock_guard lock(acting_mutex_);
  find_live();
  is_owing_ = true;
}

void Carrier::missed(Position, Position) { took_over(); }

void Carrier::let_go() {
  std::lock_guard acting(acting_mutex_);
  to_start_.clear();
  to_tell_.clear();
  to_stop_.clear();
  std::lock_guard lock(mutex_);
  joining_.clear();
  leave_all_ = true;
}

void Carrier::settle() {
  if (std::string problem = act(); !problem.empty()) throw std::runtime_error(problem);
}

std::string Carrier::act() {
  std::lock_guard lock(acting_mutex_);
  std::string problem;
  hand_over(problem);
  tell(problem);
  end(problem);
  is_owing_ = !problem.empty();
  return problem;
}

// The next few of those to be done, as they are now. What could not be done is put back by whoever tried.
Carrier::Runs Carrier::take(std::set<Key>& set, std::vector<Key>& keys) {
  std::vector<Key> some = take_some(keys);
  Runs runs = inspect(some);
  for (const Key& key : some) set.erase(key);
  return runs;
}

Carrier::Runs Carrier::inspect(const std::vector<Key>& keys) {
  auto runs = std::make_shared<Runs>(keys.size());
  Countdown countdown;
  for (std::size_t i = 0; i < keys.size(); ++i)
    runtime_.post(
        [key = keys[i], i, runs, token = countdown.token()](Engine& engine) mutable {
          engine.request(
              InspectRun{key.first, key.second},
              [i, runs, token = std::move(token)](std::expected<std::shared_ptr<const Run>, Refusal> run) mutable {
                token.end("", [&] {
                  if (run && (*run)->foreign) (*runs)[i] = std::move(*run);
                });
              });
        },
        StreamKey::of(keys[i].first, keys[i].second));
  countdown.wait();
  std::erase(*runs, nullptr);
  return std::move(*runs);
}

void Carrier::command(const std::vector<std::pair<Key, ObserveRun>>& commands) {
  Countdown countdown;
  for (const auto& [key, seen] : commands)
    runtime_.post([key, seen, token = countdown.token()](Engine& engine) mutable {
      engine.request(RunRequest{key.first, key.second, seen},
                     [token = std::move(token)](std::expected<RunAnswer, Refusal>) mutable { token.end(""); });
    });
  countdown.wait();
}

void Carrier::begin_watching(const Run& run) {
  std::lock_guard lock(mutex_);
  joining_.push_back(carried_of(run));
}

// Whether the row's version of its workflow names this provider. Versions never change.
bool Carrier::is_carried(TenantId tenant, const RunRow& row) {
  auto [known, is_new] = workflows_.try_emplace({tenant, row.workflow, row.version}, false);
  if (!is_new) return known->second;
  auto workflow = store_.find_workflow(tenant, row.workflow, row.version);
  auto document = workflow ? read_yaml(workflow->source) : std::unexpected(SourceError{});
  const SourceNode::Entry* provider = nullptr;
  if (document)
    for (const auto& entry : document->entries)
      if (entry.key == "provider") provider = &entry;
  known->second = provider && provider->value.scalar == to_string(client_.provider());
  return known->second;
}

// Every run that this provider carries and that is not over, by what the tables know.
void Carrier::find_live() {
  std::vector<TenantId> tenants;
  if (SharedStore* shared = store_.shared())
    for (const auto& [tenant, seq] : shared->tenant_heads()) tenants.push_back(tenant);
  else
    for (const Tenant& tenant : store_.tenants()) tenants.push_back(tenant.id);
  for (TenantId tenant : tenants) {
    auto flushed = runtime_.ask(FlushRows{tenant, std::nullopt});
    if (!flushed) throw std::runtime_error(flushed.error().message);
    for (RunStatus status : {RunStatus::running, RunStatus::waiting}) {
      RunFilter filter;
      filter.status = status;
      filter.limit = live_page;
      while (true) {
        auto rows = store_.list_runs(tenant, filter);
        std::vector<Key> keys;
        for (const RunRow& row : rows)
          if (is_carried(tenant, row)) keys.emplace_back(tenant, row.id);
        for (const auto& run : inspect(keys)) {
          if (is_terminal(run->status)) continue;
          const Key key{run->tenant, run->id};
          run->foreign->id.empty() ? (void)to_start_.insert(key) : begin_watching(*run);
          if (std::ranges::any_of(run->foreign->bound, [](const Foreign::Bound& each) { return !each.told; }))
            to_tell_.insert(key);
        }
        if (rows.size() < filter.limit) break;
        filter.before = rows.back().id;
      }
    }
    find_stopping(tenant);
  }
}

// A cancel is heeded by whoever likes to. What had to follow where it was not was known to a process that is gone.
void Carrier::find_stopping(TenantId tenant) {
  const Duration takes = client_.stopping_takes();
  if (takes == Duration()) return;
  const Instant since = clock_.now() - takes - away_max;
  for (RunStatus status : {RunStatus::canceled, RunStatus::timeout}) {
    RunFilter filter;
    filter.status = status;
    filter.limit = live_page;
    for (std::size_t looked_at = 0; looked_at < ended_rows_max; looked_at += filter.limit) {
      auto rows = store_.list_runs(tenant, filter);
      for (const RunRow& row : rows)
        if (row.updated_at >= since && is_carried(tenant, row)) to_stop_.insert({tenant, row.id});
      if (rows.size() < filter.limit) break;
      filter.before = rows.back().id;
    }
  }
}

void Carrier::hand_over(std::string& problem) {
  std::vector<Key> keys(to_start_.begin(), to_start_.end());
  while (!keys.empty()) {
    std::vector<Carried> some;
    std::vector<std::pair<Key, ObserveRun>> commands;
    for (const auto& run : take(to_start_, keys)) {
      if (is_terminal(run->status)) continue;
      if (!run->foreign->id.empty()) {
        begin_watching(*run);
        continue;
      }
      if (auto key = render_target_key(*run); !key || (key->empty() && !run->workflow->target.key.empty())) {
        std::string why = "the target's `key` cannot be made of this run: " + (key ? "it is empty" : key.error());
        commands.push_back({{run->tenant, run->id},
                            {.sub_state = SubState::failed,
                             .ends = RunTrigger::fail,
                             .diagnostic = diagnosed("EXPRESSION_FAILED", std::move(why), clock_.now())}});
        continue;
      }
      some.push_back(carried_of(*run));
    }
    auto outcomes = client_.start(some);
    std::vector<Carried> accepted;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Key key{some[i].tenant, some[i].run};
      ObserveRun seen;
      switch (outcomes[i].kind) {
        case Outcome::Kind::done:
          seen.id = some[i].id = outcomes[i].text;
          accepted.push_back(some[i]);
          break;
        case Outcome::Kind::refused:
          seen.sub_state = SubState::failed;
          seen.ends = RunTrigger::fail;
          seen.diagnostic = diagnosed("PROVIDER_REFUSED", outcomes[i].text, clock_.now());
          break;
        case Outcome::Kind::unreachable:
          seen.last_failure = problem = outcomes[i].text;
          to_start_.insert(key);
          break;
      }
      commands.emplace_back(key, std::move(seen));
    }
    command(commands);
    std::lock_guard lock(mutex_);
    joining_.insert(joining_.end(), accepted.begin(), accepted.end());
  }
}

void Carrier::tell(std::string& problem) {
  std::vector<Key> keys(to_tell_.begin(), to_tell_.end());
  while (!keys.empty()) {
    std::vector<Decided> some;
    for (const auto& run : take(to_tell_, keys)) {
      if (is_terminal(run->status)) continue;
      for (const Foreign::Bound& bound : run->foreign->bound) {
        auto approval = std::ranges::find(run->approvals, bound.approval, &Approval::id);
        if (bound.told || !is_terminal(approval->status)) continue;
        some.push_back({.run = carried_of(*run),
                        .callback = bound.callback,
                        .approval = approval->id,
                        .gate = run->definition(approval->step).id.text,
                        .status = approval->status,
                        .by = approval->resolved_by.text,
                        .reason = approval->reason});
      }
    }
    auto outcomes = client_.tell(some);
    Countdown countdown;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const Carried& run = some[i].run;
      if (outcomes[i].kind == Outcome::Kind::unreachable) {
        problem = outcomes[i].text;
        to_tell_.insert({run.tenant, run.run});
        continue;
      }
      const bool refused = outcomes[i].kind == Outcome::Kind::refused;
      if (refused && options_.report)
        options_.report(fmt::format("{}: the answer to {} of {} cannot be given there any more: {}",
                                    to_string(client_.provider()), some[i].approval.str(), run.run.str(),
                                    outcomes[i].text));
      RecordTold told{some[i].approval, refused ? outcomes[i].text : std::string()};
      runtime_.post([tenant = run.tenant, id = run.run, told, token = countdown.token()](Engine& engine) mutable {
        engine.request(RunRequest{tenant, id, told},
                       [token = std::move(token)](std::expected<RunAnswer, Refusal>) mutable { token.end(""); });
      });
    }
    countdown.wait();
  }
}

void Carrier::end(std::string& problem) {
  std::vector<Key> keys(to_stop_.begin(), to_stop_.end());
  while (!keys.empty()) {
    std::vector<Carried> some;
    for (const auto& run : take(to_stop_, keys)) some.push_back(carried_of(*run));
    auto outcomes = client_.stop(some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (outcomes[i].kind == Outcome::Kind::unreachable) {
        problem = outcomes[i].text;
        to_stop_.insert({some[i].tenant, some[i].run});
        continue;
      }
      if (outcomes[i].kind == Outcome::Kind::refused && options_.report)
        options_.report(fmt::format("{}: {} has ended here and cannot be stopped there: {}",
                                    to_string(client_.provider()), some[i].run.str(), outcomes[i].text));
      std::lock_guard lock(mutex_);
      leaving_.push_back(some[i].run);
    }
  }
}

// ---- Looking

void Carrier::take_changes() {
  std::lock_guard lock(mutex_);
  if (std::exchange(leave_all_, false)) {
    for (const auto& [run, watched] : watched_) client_.forget(run);
    watched_.clear();
  }
  for (const Carried& run : std::exchange(joining_, {})) {
    watched_.try_emplace(run.run, Watched{.tenant = run.tenant, .last = {}, .missing_since = {}});
    client_.watch(run);
  }
  for (RunId run : std::exchange(leaving_, {})) {
    client_.forget(run);
    watched_.erase(run);
  }
}

void Carrier::look_again_and_again() {
  Duration pause = options_.interval;
  bool was_well = true;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, pause, [&] { return ending_; })) return;
    }
    try {
      if (is_owing_) act();
      take_changes();
      const auto begun = std::chrono::steady_clock::now();
      Look look = client_.look();
      auto took = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begun);
      note(look.seen);
      const bool is_well = look.problem.empty();
      if (options_.looked) options_.looked(client_.provider(), is_well, watched_.size());
      if (is_well != was_well && options_.report)
        options_.report(is_well ? fmt::format("{} can be looked at again", to_string(client_.provider()))
                                : fmt::format("{} cannot be looked at just now, and is tried again: {}",
                                              to_string(client_.provider()), look.problem));
      pause = is_well ? std::max(options_.interval, took * looking_share) - took
                      : std::clamp(pause * 2, options_.interval, pause_max);
      was_well = is_well;
    } catch (const std::exception& error) {
      if (was_well && options_.report) options_.report(fmt::format("{}: {}", name(), error.what()));
      was_well = false;
      pause = std::clamp(pause * 2, options_.interval, pause_max);
    }
  }
}

void Carrier::say_unknown(const std::string& said) {
  std::string word = kept_text(said, unknown_bytes_max);
  // Each is a line in the log and a metric for ever: somebody who talks nonsense gets no more than a few.
  if (unknown_.size() >= unknown_max && !unknown_.contains(word)) word = "(others)";
  if (options_.unknown_state) options_.unknown_state(client_.provider(), word);
  if (unknown_.insert(word).second && options_.report)
    options_.report(fmt::format("{} says \"{}\" of a run, which no table knows: it is taken to be running",
                                to_string(client_.provider()), word));
}

std::optional<ObserveRun> Carrier::news_in(const Sighting& sighting) {
  Watched& watched = watched_.at(sighting.run);
  if (!sighting.is_known) {
    // Not yet, perhaps; or a moment before it is seen everywhere. Nobody guesses how it ended.
    const Instant now = clock_.now();
    if (!watched.missing_since) watched.missing_since = now;
    if (now - *watched.missing_since < options_.lost_after) return std::nullopt;
    return ObserveRun{.sub_state = SubState::failed,
                      .ends = RunTrigger::fail,
                      .diagnostic = diagnosed("PROVIDER_RUN_LOST",
                                              fmt::format("{} has not known it for {}", to_string(client_.provider()),
                                                          print_duration(options_.lost_after)),
                                              now)};
  }
  watched.missing_since.reset();
  if (sighting == watched.last) return std::nullopt;
  if (!find_provider_state(client_.provider(), sighting.word)) say_unknown(sighting.word);
  return meaning_of(client_.provider(), sighting, clock_.now());
}

void Carrier::note(const std::vector<Sighting>& seen) {
  auto ended = std::make_shared<std::vector<RunId>>();
  Countdown countdown;
  for (const Sighting& sighting : seen) {
    auto found = watched_.find(sighting.run);
    if (found == watched_.end()) continue;
    auto meaning = news_in(sighting);
    if (!meaning) continue;
    found->second.last = sighting;
    runtime_.post([tenant = found->second.tenant, run = sighting.run, meaning = std::move(*meaning), ended,
                   token = countdown.token()](Engine& engine) mutable {
      engine.request(RunRequest{tenant, run, meaning},
                     [run, ended, token = std::move(token)](std::expected<RunAnswer, Refusal> answer) mutable {
                       token.end("", [&] {
                         if (answer && is_terminal(answer->status)) ended->push_back(run);
                       });
                     });
    });
  }
  countdown.wait();
  std::lock_guard lock(mutex_);
  leaving_.insert(leaving_.end(), ended->begin(), ended->end());
}

}  // namespace pawl::providers
