#include "evidence/notary.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <memory>

#include "engine/workflows.h"

namespace pawl {
namespace {

constexpr int tries_max = 10;
constexpr std::size_t rows_a_look = 32;
const Actor notary{"engine"};

LogEntry log_entry_of(const RunRow& row) { return {row.id.str(), row.seq, row.head}; }
std::string entry_of(const RunRow& row) { return print_entry(log_entry_of(row)); }

Instant last_time(std::string_view lines) {
  if (lines.empty()) return {};
  lines.remove_suffix(1);
  const auto end = lines.rfind('\n');
  auto event = parse_run_event(end == lines.npos ? lines : lines.substr(end + 1));
  return event ? event->at : Instant{};
}

}  // namespace

// A key that took the place of one that is lost would sign nothing: the journal accepts no other.
SigningKeys Notary::keys() {
  if (!had_key_file_) {
    SigningKeys keys = open_signing_keys(parts_.key_file, parts_.clock.now());
    had_key_file_ = true;
    return keys;
  }
  try {
    return read_signing_keys(parts_.key_file);
  } catch (const KeyFileFailure& failure) {
    throw SigningKeyLost(failure.what());
  }
}

TenantHead Notary::tenant_head(TenantId tenant) {
  auto found = parts_.runtime.ask(InspectTenant{tenant});
  if (!found) throw EvidenceFailure(found.error().message);
  return std::move(*found);
}

void Notary::flush(TenantId tenant, std::optional<RunId> run) {
  auto done = parts_.runtime.ask(FlushRows{tenant, run});
  if (!done) throw EvidenceFailure(done.error().message);
}

bool Notary::try_record(TenantId tenant, RecordEvidence evidence) {
  auto done = parts_.runtime.ask(TenantRequest{tenant, std::move(evidence), notary});
  if (!done && done.error().code != RefusalCode::invalid) throw EvidenceFailure(done.error().message);
  return done.has_value();
}

void Notary::record(TenantId tenant, const std::vector<BundleStored>& stored) {
  // The last reply ends the wait. When the runtime stops, replies are dropped uncalled, and the promise with them.
  struct Waiting {
    std::atomic<std::size_t> left;
    std::promise<std::string> problem;  // empty: all are durable
    std::mutex mutex;
    std::string first_problem = {};
  };
  if (stored.empty()) return;
  auto waiting = std::make_shared<Waiting>(stored.size());
  auto problem = waiting->problem.get_future();
  parts_.runtime.post([tenant, stored, waiting = std::move(waiting)](Engine& engine) {
    for (const BundleStored& each : stored)
      engine.request(TenantRequest{tenant, RecordEvidence{each}, notary},
                     [waiting](std::expected<TenantId, Refusal> done) {
                       std::lock_guard lock(waiting->mutex);
                       if (!done && waiting->first_problem.empty()) waiting->first_problem = done.error().message;
                       if (waiting->left.fetch_sub(1) == 1) waiting->problem.set_value(waiting->first_problem);
                     });
  });
  if (const std::string text = problem.get(); !text.empty()) throw EvidenceFailure(text);
}

void Notary::introduce_keys(TenantId tenant, const SigningKeys& keys) {
  auto wanted = keys_to_record(tenant_head(tenant).tenant, keys);
  if (!wanted) throw SigningKeyLost(wanted.error());
  for (const SigningKeySet& key : *wanted)
    if (!try_record(tenant, {key})) return;  // another server has just done it
}

void Notary::append(TenantId tenant, const std::vector<std::string>& entries, bool with_tenant) {
  std::lock_guard lock(appending_);
  const SigningKeys keys = this->keys();
  introduce_keys(tenant, keys);
  std::size_t done = 0;
  for (int tries = 0; done < entries.size() || with_tenant; ++tries) {
    if (tries == tries_max)
      throw EvidenceFailure("no checkpoint can be made: other servers are always faster, or sign with another key");
    TenantHead now = tenant_head(tenant);
    const std::size_t count = std::min(entries.size() - done, checkpoint_entries_max - 1);
    const auto first = entries.begin() + static_cast<std::ptrdiff_t>(done);
    std::vector<std::string> batch(first, first + static_cast<std::ptrdiff_t>(count));
    if (with_tenant) batch.push_back(print_entry({tenant.str(), now.tenant.seq, now.head}));
    CheckpointMade made = make_checkpoint(now.tenant, std::move(batch), keys.secret, parts_.clock.now());
    if (!try_record(tenant, {made})) continue;
    {
      std::lock_guard proofs_lock(proofs_mutex_);
      proofs_.add(tenant, {std::move(made), {now.tenant.checkpoint.size, std::move(now.tenant.checkpoint.peaks)}});
    }
    done += count;
    with_tenant = false;
    tries = -1;
  }
}

std::vector<RunRow> Notary::rows_of(TenantId tenant, std::vector<RunId> runs) {
  std::ranges::sort(runs);
  std::vector<RunRow> out;
  // Runs that were made one after the other lie beside each other: most of a look is wanted.
  for (std::size_t next = 0; next < runs.size();) {
    auto rows = parts_.store.load_from(tenant, runs[next], rows_a_look);
    if (rows.empty()) break;
    for (RunRow& row : rows) {
      while (next < runs.size() && runs[next] < row.id) ++next;
      if (next == runs.size() || runs[next] != row.id) continue;
      ++next;
      row.snapshot.clear();
      out.push_back(std::move(row));
    }
    if (rows.size() < rows_a_look) break;
    while (next < runs.size() && runs[next] <= rows.back().id) ++next;
  }
  return out;
}

std::vector<RunRow> Notary::cover(TenantId tenant, std::vector<RunId> runs, bool with_tenant) {
  flush(tenant, std::nullopt);
  auto rows = rows_of(tenant, std::move(runs));
  std::vector<std::string> entries;
  if (const std::uint64_t last = tenant_head(tenant).tenant.checkpoint.number; last == 0) {
    entries = uncovered(tenant);
  } else if (!rows.empty()) {
    const Instant oldest = std::ranges::min(rows, {}, &RunRow::updated_at).updated_at;
    learn_checkpoints(tenant, last, oldest - clock_slack);
    std::lock_guard lock(proofs_mutex_);
    for (const RunRow& row : rows)
      if (!proofs_.has(tenant, log_entry_of(row))) entries.push_back(entry_of(row));
  }
  append(tenant, entries, with_tenant);
  return rows;
}

void Notary::learn_checkpoints(TenantId tenant, std::uint64_t last, Instant since) {
  std::lock_guard lock(proofs_mutex_);
  const std::uint64_t known = proofs_.newest(tenant);
  if (known >= last) return;
  std::vector<LoggedCheckpoint> found;  // newest first
  std::size_t entries = 0;
  visit_checkpoints_back(parts_.store, tenant, [&](LoggedCheckpoint each) {
    const bool is_last = each.made.checkpoint.made_at < since || each.made.checkpoint.number <= known + 1;
    entries += each.made.entries.size();
    found.push_back(std::move(each));
    return !is_last && entries < ProofCache::entries_max_default;
  });
  while (!found.empty()) {
    proofs_.add(tenant, std::move(found.back()));
    found.pop_back();
  }
}

std::optional<EntryProof> Notary::find_proof(TenantId tenant, const LogEntry& entry, Instant last_event) {
  std::lock_guard lock(proofs_mutex_);
  if (auto known = proofs_.prove(tenant, entry)) return known;
  auto found = find_checkpoint(parts_.store, tenant, entry, last_event);
  if (!found) return std::nullopt;
  // Others that it covers are likely to be asked for next.
  proofs_.add(tenant, std::move(*found));
  return proofs_.prove(tenant, entry);
}

// Streams are compared with the last entry that each has in the log.
std::vector<std::string> Notary::uncovered(TenantId tenant) {
  std::map<std::string, std::string, std::less<>> last;
  const std::string lines = parts_.store.history(StreamKey::of(tenant)).lines;
  for (std::string_view rest = lines; !rest.empty();) {
    const auto end = rest.find('\n');
    auto event = parse_tenant_event(rest.substr(0, end));
    if (const auto* made = event ? std::get_if<CheckpointMade>(&event->payload) : nullptr)
      for (const std::string& entry : made->entries) last[entry.substr(0, entry.find(' '))] = entry;
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  std::vector<std::string> out;
  for (std::optional<RunId> place = RunId{};;) {
    auto rows = parts_.store.load_from(tenant, *place, 512);
    for (const RunRow& row : rows) {
      std::string entry = entry_of(row);
      auto found = last.find(row.id.str());
      if (found == last.end() || found->second != entry) out.push_back(std::move(entry));
    }
    if (rows.size() < 512) return out;
    place = rows.back().id;
    ++place->bits.low;
  }
}

bool Notary::cover_all(TenantId tenant) {
  flush(tenant, std::nullopt);
  auto entries = uncovered(tenant);
  if (entries.empty()) return false;
  append(tenant, entries, true);
  return true;
}

Bundle Notary::bundle(TenantId tenant, RunId run) {
  flush(tenant, run);
  auto stream = parts_.store.history(StreamKey::of(tenant, run));
  if (stream.last_seq == 0) throw EvidenceFailure("there is no such run");
  const Instant last_event = last_time(stream.lines);
  LogEntry entry{run.str(), stream.last_seq, stream.head};
  auto proof = find_proof(tenant, entry, last_event);
  if (!proof) {
    if (tenant_head(tenant).tenant.checkpoint.number == 0)
      cover_all(tenant);
    else
      append(tenant, {print_entry(entry)}, false);
    proof = find_proof(tenant, entry, last_event);
  }
  if (!proof) throw EvidenceFailure("the run went on while its bundle was made; ask again");
  auto event = parse_run_event(std::string_view(stream.lines).substr(0, stream.lines.find('\n')));
  const auto* created = event ? std::get_if<RunCreated>(&event->payload) : nullptr;
  auto row = created ? parts_.store.find_workflow(tenant, created->workflow, created->version) : std::nullopt;
  if (!row) throw EvidenceFailure("the run's workflow is not there any more; pawl verify says more");
  auto workflow = compile_workflow(row->source, row->name.text, nullptr);
  if (!workflow) throw EvidenceFailure(workflow.error());
  workflow->version = row->version;
  auto policy = [&](int version) {
    auto found = find_policy_version(parts_.store, tenant, version);
    if (!found) throw EvidenceFailure(fmt::format("policy v{} is not in the journal; pawl verify says more", version));
    return std::move(*found);
  };
  const SigningKeys keys = this->keys();
  if (std::ranges::find(keys.known, proof->made.checkpoint.key, &KnownKey::id) == keys.known.end())
    throw SigningKeyLost(
        fmt::format("the run is covered by a checkpoint of {}, which the key file does not know: "
                    "restore the file that this installation had",
                    proof->made.checkpoint.key));
  return make_bundle({.tenant = tenant,
                      .run = run,
                      .stream = std::move(stream),
                      .workflow = *workflow,
                      .proof = std::move(*proof),
                      .policy = policy,
                      .keys = keys});
}

SigningKeys Notary::rotate() {
  std::lock_guard lock(appending_);
  // Whoever has not heard of the present key must, or the new one would follow nothing there.
  const SigningKeys old = keys();
  std::vector<TenantId> tenants;
  for (const Tenant& tenant : parts_.store.tenants()) {
    tenants.push_back(tenant.id);
    introduce_keys(tenant.id, old);
  }
  SigningKeys next = rotate_signing_key(parts_.key_file, parts_.clock.now());
  for (TenantId tenant : tenants) introduce_keys(tenant, next);
  return next;
}

}  // namespace pawl
