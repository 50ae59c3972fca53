// pawl evidence, checkpoints and keys signing: at a server, or in a folder that none serves.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>
#include <fstream>

#include "cli/commands.h"
#include "cli/key_files.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"
#include "evidence/notary.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;
namespace fs = std::filesystem;

// An engine on the folder, without workers, for as long as something is signed.
template <class Work>
auto with_notary(const fs::path& folder, Work work) {
  Toolbox toolbox;
  toolbox.catalog.expect_remote_tools();
  auto store = open_folded(folder, toolbox);
  Session session(*store, toolbox, std::set<RunId>{});
  SystemClock clock;
  if (auto problem = signing_key_problem(store->tenants(), folder / signing_key_file))
    throw Stop(exit_not_found, *problem);
  Notary notary({session.runtime(), *store, clock, folder / signing_key_file});
  try {
    auto out = work(notary, *store, session.tenant());
    session.stop();
    return out;
  } catch (const EvidenceFailure& failure) {
    throw Stop(exit_ended_badly, failure.what());
  } catch (const KeyFileFailure& failure) {
    throw Stop(exit_store_failure, failure.what());
  }
}

void write_output(const std::string& path, std::string_view bytes) {
  if (path == "-") {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    std::fflush(stdout);
    return;
  }
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw Stop(exit_usage, fmt::format("{} cannot be written", path));
}

Json checkpoints_of(const CheckpointsOptions& options, const fs::path& folder) {
  if (auto remote = Remote::find_named(options.server, folder))
    return remote->get(fmt::format("/checkpoints?limit={}", options.limit));
  auto store = open_to_read(folder);
  array items;
  for (const Tenant& tenant : store->tenants())
    for (const SignedCheckpoint& made : list_checkpoints(*store, tenant.id, {}, options.limit))
      items.push_back(checkpoint_object(made));
  return object{{"items", std::move(items)}, {"next_cursor", nullptr}};
}

Json make_one(const CheckpointsOptions& options, const fs::path& folder) {
  if (auto remote = Remote::find(options.server, folder)) return remote->post("/checkpoints", object{});
  return with_notary(folder, [](Notary& notary, Store& store, TenantId tenant) -> Json {
    notary.cover_all(tenant);
    auto made = list_checkpoints(store, tenant, {}, 1);
    if (made.empty()) throw Stop(exit_not_found, "there is no run yet that a checkpoint could cover");
    return checkpoint_object(made[0]);
  });
}

Json prove(const CheckpointsOptions& options, const fs::path& folder) {
  if (!options.from) throw Stop(exit_usage, "from which checkpoint? pawl checkpoints prove --from N");
  if (auto remote = Remote::find(options.server, folder))
    return remote->get(fmt::format("/checkpoints/consistency?from={}", *options.from) +
                       (options.to ? fmt::format("&to={}", *options.to) : ""));
  auto store = open_to_read(folder);
  for (const Tenant& tenant : store->tenants())
    if (auto proof =
            find_consistency(*store, tenant.id, *options.from, options.to.value_or(tenant.checkpoint.number))) {
      object out = consistency_object(*proof);
      out["keys"] = keys_object(read_signing_keys(folder / signing_key_file).known);
      return out;
    }
  throw Stop(exit_not_found, "there are no such checkpoints; see pawl checkpoints");
}

}  // namespace

ExitCode make_evidence(const EvidenceOptions& options) {
  const fs::path folder = data_folder(options.data);
  std::string bytes;
  std::string file = options.output;
  if (auto remote = Remote::find(options.server, folder)) {
    const RunId run = remote->find_run(options.run);
    bytes = remote->get_bytes(fmt::format("/runs/{}/evidence{}", run.str(), options.partial ? "?partial=true" : ""));
    if (file.empty()) file = run.str() + ".zip";
  } else {
    FoundRun run = find_run(*open_to_read(folder), options.run);
    bytes = with_notary(folder, [&](Notary& notary, Store& store, TenantId) {
      auto row = store.load(run.tenant, run.id);
      if (row && !is_terminal(row->status) && !options.partial)
        throw Stop(exit_ended_badly,
                   fmt::format("{} has not ended; --partial gives what there is so far", run.id.str()));
      return notary.bundle(run.tenant, run.id).bytes;
    });
    if (file.empty()) file = run.id.str() + ".zip";
  }
  write_output(file, bytes);
  if (file != "-") fmt::print("{}\n", file);
  return exit_success;
}

ExitCode manage_checkpoints(const CheckpointsOptions& options) {
  using What = CheckpointsOptions::What;
  const fs::path folder = data_folder(options.data);
  if (options.what == What::list) {
    print_table(checkpoints_of(options, folder), options.json, {"number", "made_at", "size", "root"},
                "none was made yet; pawl checkpoints make");
    return exit_success;
  }
  const Json answer = options.what == What::make ? make_one(options, folder) : prove(options, folder);
  if (options.what == What::prove || options.json)
    print_json(answer);
  else
    fmt::print("checkpoint {} of {} entries, root {}\n", answer.at("number").to_number<std::uint64_t>(),
               answer.at("size").to_number<std::uint64_t>(), text_of(answer, "root"));
  return exit_success;
}

ExitCode manage_signing_keys(const KeysOptions& options) {
  if (!options.id.empty() && options.id != "show" && options.id != "rotate")
    throw Stop(exit_usage, fmt::format("{} is none of: show, rotate", printable(options.id)));
  const fs::path folder = data_folder(options.data);
  const bool is_rotation = options.id == "rotate";
  Json keys;
  if (auto remote = Remote::find(options.server, folder)) {
    if (is_rotation) remote->post("/signing-keys/rotate", object{});
    keys = remote->get("/signing-keys");
  } else {
    keys = with_notary(folder, [&](Notary& notary, Store&, TenantId) -> Json {
      SigningKeys known = is_rotation ? notary.rotate() : notary.keys();
      return object{{"items", keys_object(known.known)}, {"next_cursor", nullptr}};
    });
  }
  print_table(keys, options.json, {"id", "public_key", "from", "until"}, "no keys");
  return exit_success;
}

}  // namespace pawl
