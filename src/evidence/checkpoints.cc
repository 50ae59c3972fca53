#include "evidence/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>

#include "core/event_header.h"
#include "crypto/sha256.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

struct Bad {
  std::string reason;
};

const Json& member(const object& in, std::string_view name) {
  const Json* value = in.if_contains(name);
  if (!value) throw Bad{fmt::format("\"{}\" is missing", name)};
  return *value;
}
const object& object_in(const Json& value, std::string_view what) {
  if (!value.is_object()) throw Bad{fmt::format("{} must be an object", what)};
  return value.get_object();
}
std::string text(const object& in, std::string_view name) {
  const Json& value = member(in, name);
  if (!value.is_string()) throw Bad{fmt::format("\"{}\" must be a string", name)};
  return std::string(value.get_string());
}
std::uint64_t count(const object& in, std::string_view name) {
  const Json& value = member(in, name);
  if (!value.is_int64() || value.get_int64() < 0) throw Bad{fmt::format("\"{}\" must be a whole number", name)};
  return static_cast<std::uint64_t>(value.get_int64());
}
Hash hash_of(const Json& value, std::string_view name) {
  auto hash = value.is_string() ? Hash::parse(value.get_string()) : std::nullopt;
  if (!hash) throw Bad{fmt::format("\"{}\" is not a hash", name)};
  return *hash;
}
std::vector<Hash> path_in(const object& in, std::string_view name) {
  const Json& value = member(in, name);
  if (!value.is_array()) throw Bad{fmt::format("\"{}\" must be a list", name)};
  std::vector<Hash> out;
  for (const Json& each : value.get_array()) out.push_back(hash_of(each, name));
  return out;
}
array print_path(const std::vector<Hash>& path) {
  array out;
  for (const Hash& hash : path) out.emplace_back(hash.hex());
  return out;
}

SignedCheckpoint read_checkpoint(const Json& value) {
  const object& in = object_in(value, "a checkpoint");
  auto tenant = TenantId::parse(text(in, "tenant"));
  auto signature = Signature::parse(text(in, "signature"));
  auto made_at = parse_time(text(in, "made_at"));
  if (!tenant) throw Bad{"\"tenant\" is not an id"};
  if (!signature) throw Bad{"\"signature\" is not 128 digits of hex"};
  if (!made_at) throw Bad{"\"made_at\" is not a time"};
  return {*tenant,
          {count(in, "number"), count(in, "size"), hash_of(member(in, "root"), "root"),
           hash_of(member(in, "previous"), "previous"), *made_at, text(in, "key")},
          *signature};
}

template <class Read>
auto reading(Read read) -> std::expected<decltype(read()), std::string> {
  try {
    return read();
  } catch (const Bad& bad) {
    return std::unexpected(bad.reason);
  }
}

std::optional<CheckpointMade> checkpoint_in(std::string_view line) {
  if (read_event_header(line).type != "checkpoint.made") return std::nullopt;
  auto event = parse_tenant_event(line);
  auto* made = event ? std::get_if<CheckpointMade>(&event->payload) : nullptr;
  return made ? std::optional(std::move(*made)) : std::nullopt;
}

SignedCheckpoint as_signed(TenantId tenant, const CheckpointMade& made) {
  return {tenant, made.checkpoint, Signature::parse(made.signature).value_or(Signature{})};
}

// Visits a tenant's events, newest first, until told to stop.
void visit_back(Store& store, TenantId tenant, const std::function<bool(std::string_view line)>& visit) {
  store.for_each_piece_back(StreamKey::of(tenant), [&](std::uint64_t, std::string_view lines) {
    while (!lines.empty()) {
      lines.remove_suffix(1);  // its line end
      const auto end = lines.rfind('\n');
      if (!visit(end == lines.npos ? lines : lines.substr(end + 1))) return false;
      lines = end == lines.npos ? std::string_view() : lines.substr(0, end + 1);
    }
    return true;
  });
}

}  // namespace

CheckpointMade make_checkpoint(const Tenant& tenant, std::vector<std::string> entries, const PrivateKey& key,
                               Instant now) {
  MerkleLog log{tenant.checkpoint.size, tenant.checkpoint.peaks};
  for (const std::string& entry : entries) log.append(merkle_leaf(entry));
  CheckpointMade out;
  out.checkpoint = {tenant.checkpoint.number + 1, log.size, log.root(),
                    tenant.checkpoint.hash,       now,      key.public_key().id()};
  const std::string statement = statement_of(tenant.id, out.checkpoint);
  out.hash = sha256(statement);
  out.signature = key.sign(statement).hex();
  out.peaks = std::move(log.peaks);
  out.entries = std::move(entries);
  return out;
}

std::expected<std::vector<SigningKeySet>, std::string> keys_to_record(const Tenant& tenant, const SigningKeys& keys) {
  auto next = keys.known.begin();
  if (!tenant.signing_key.empty()) {
    next = std::ranges::find(keys.known, tenant.signing_key, &KnownKey::id);
    if (next == keys.known.end())
      return std::unexpected(
          fmt::format("the journal of {} is signed by {}, which the key file does not know: restore the file that this "
                      "installation had",
                      tenant.name, tenant.signing_key));
    ++next;
  } else {
    next = keys.known.end() - 1;  // what signed elsewhere before says nothing about this tenant
  }
  std::vector<SigningKeySet> out;
  for (; next != keys.known.end(); ++next) {
    const bool follows = !tenant.signing_key.empty();
    out.push_back({next->id(), next->public_key.hex(), follows ? next->previous : "",
                   follows && next->voucher ? next->voucher->hex() : ""});
  }
  return out;
}

Hash SignedCheckpoint::hash() const { return sha256(statement_of(tenant, checkpoint)); }

object checkpoint_object(const SignedCheckpoint& made) {
  return {{"tenant", made.tenant.str()},
          {"number", made.checkpoint.number},
          {"size", made.checkpoint.size},
          {"root", made.checkpoint.root.hex()},
          {"previous", made.checkpoint.previous.hex()},
          {"made_at", print_time(made.checkpoint.made_at)},
          {"key", made.checkpoint.key},
          {"signature", made.signature.hex()}};
}

std::expected<SignedCheckpoint, std::string> read_checkpoint_object(const Json& value) {
  return reading([&] { return read_checkpoint(value); });
}

std::expected<void, std::string> check_signature(const SignedCheckpoint& made, const std::vector<KnownKey>& keys) {
  auto key = std::ranges::find(keys, made.checkpoint.key, &KnownKey::id);
  if (key == keys.end())
    return std::unexpected(fmt::format("it is signed by {}, which is not known", made.checkpoint.key));
  if (!verify_signature(key->public_key, statement_of(made.tenant, made.checkpoint), made.signature))
    return std::unexpected("its signature does not fit");
  return {};
}

object proof_object(const EntryProof& proof) {
  return {{"checkpoint", checkpoint_object(proof.made)},
          {"entry", print_entry(proof.entry)},
          {"index", proof.proof.index},
          {"path", print_path(proof.proof.path)}};
}

std::expected<EntryProof, std::string> read_proof_object(const Json& value) {
  return reading([&] {
    const object& in = object_in(value, "a proof");
    auto entry = parse_entry(text(in, "entry"));
    if (!entry) throw Bad{"\"entry\" is not one"};
    EntryProof out{read_checkpoint(member(in, "checkpoint")), std::move(*entry), {}};
    out.proof = {count(in, "index"), out.made.checkpoint.size, path_in(in, "path")};
    return out;
  });
}

std::expected<void, std::string> check_proof(const EntryProof& proof) {
  auto root = root_by(proof.proof, merkle_leaf(print_entry(proof.entry)));
  if (!root) return std::unexpected("the inclusion proof has not the length that its tree asks for");
  if (*root != proof.made.checkpoint.root)
    return std::unexpected("the inclusion proof does not lead to the signed root");
  return {};
}

void visit_checkpoints_back(Store& store, TenantId tenant, const std::function<bool(LoggedCheckpoint)>& visit) {
  std::optional<CheckpointMade> newer;  // the next older one says what it goes on from
  bool is_wanted = true;
  visit_back(store, tenant, [&](std::string_view line) {
    auto made = checkpoint_in(line);
    if (!made) return true;  // where one is damaged, `pawl verify` says so
    if (newer) is_wanted = visit({std::move(*newer), {made->checkpoint.size, made->peaks}});
    newer = std::move(made);
    return is_wanted;
  });
  if (newer && is_wanted) visit({std::move(*newer), {}});
}

std::optional<LoggedCheckpoint> find_checkpoint(Store& store, TenantId tenant, const LogEntry& entry,
                                                Instant last_event) {
  const std::string wanted = print_entry(entry);
  std::optional<LoggedCheckpoint> out;
  visit_checkpoints_back(store, tenant, [&](LoggedCheckpoint each) {
    const Instant made_at = each.made.checkpoint.made_at;
    if (std::ranges::find(each.made.entries, wanted) != each.made.entries.end()) out = std::move(each);
    return made_at >= last_event - clock_slack;
  });
  return out;
}

std::optional<ConsistencyProof> find_consistency(Store& store, TenantId tenant, std::uint64_t older,
                                                 std::uint64_t newer) {
  std::optional<SignedCheckpoint> first, second;
  std::vector<Hash> leaves;
  const std::string lines = store.history(StreamKey::of(tenant)).lines;
  for (std::string_view rest = lines; !rest.empty() && !second;) {
    const auto end = rest.find('\n');
    if (auto made = checkpoint_in(rest.substr(0, end))) {
      for (const std::string& entry : made->entries) leaves.push_back(merkle_leaf(entry));
      if (made->checkpoint.number == older) first = as_signed(tenant, *made);
      if (made->checkpoint.number == newer) second = as_signed(tenant, *made);
    }
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
  }
  if (!first || !second || leaves.size() != second->checkpoint.size || first->checkpoint.size > leaves.size())
    return std::nullopt;
  return ConsistencyProof{*first, *second, prove_consistency(leaves, first->checkpoint.size)};
}

object consistency_object(const ConsistencyProof& proof) {
  return {{"older", checkpoint_object(proof.older)},
          {"newer", checkpoint_object(proof.newer)},
          {"path", print_path(proof.path)}};
}

std::expected<ConsistencyProof, std::string> read_consistency_object(const Json& value) {
  return reading([&] {
    const object& in = object_in(value, "a proof");
    return ConsistencyProof{read_checkpoint(member(in, "older")), read_checkpoint(member(in, "newer")),
                            path_in(in, "path")};
  });
}

std::expected<void, std::string> check_consistency(const ConsistencyProof& proof) {
  if (proof.older.tenant != proof.newer.tenant) return std::unexpected("the two checkpoints are of different tenants");
  const Checkpoint &older = proof.older.checkpoint, &newer = proof.newer.checkpoint;
  if (older.number > newer.number) return std::unexpected("the older checkpoint has the higher number");
  if (!check_consistency(older.size, older.root, newer.size, newer.root, proof.path))
    return std::unexpected(
        fmt::format("checkpoint {} does not go on from checkpoint {}: something that was there then "
                    "has been changed or removed",
                    newer.number, older.number));
  return {};
}

std::vector<SignedCheckpoint> list_checkpoints(Store& store, TenantId tenant, std::optional<std::uint64_t> before,
                                               std::size_t limit) {
  std::vector<SignedCheckpoint> out;
  visit_back(store, tenant, [&](std::string_view line) {
    auto made = checkpoint_in(line);
    if (made && (!before || made->checkpoint.number < *before)) out.push_back(as_signed(tenant, *made));
    return out.size() < limit;
  });
  return out;
}

}  // namespace pawl
