// pawl workflows, keys, tenants: what a server's operators look after.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/recorded_run.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"
#include "engine/workflows.h"

namespace pawl {
namespace {

using boost::json::object;

object publish_on_server(const Remote& remote, const std::string& source, const std::string& file) {
  // Its name stands in it; what else is wrong the server says, with line and column.
  auto workflow = compile_workflow(source, file, nullptr);
  if (!workflow) throw Stop(exit_usage, workflow.error());
  return remote.put("/workflows/" + percent_encode(workflow->name.text), source).as_object();
}

object publish_here(const std::filesystem::path& folder, const std::string& source, const std::string& file) {
  Toolbox toolbox;
  toolbox.catalog.expect_remote_tools();
  if (auto workflow = compile_workflow(source, file, &toolbox.catalog); !workflow)
    throw Stop(exit_usage, workflow.error());
  auto store = open_folded(folder, toolbox);
  Session session(*store, toolbox, std::set<RunId>{});
  auto published = session.runtime().ask(PublishWorkflow{session.tenant(), source, file, this_person()});
  session.stop();
  if (!published) throw Stop(exit_usage, published.error().message);
  return {{"name", published->name.text}, {"version", published->version}};
}

ExitCode publish(const WorkflowsOptions& options, const std::filesystem::path& folder) {
  std::string source = read_whole_file(options.publish);
  auto remote = Remote::find(options.server, folder);
  Json answer =
      remote ? publish_on_server(*remote, source, options.publish) : publish_here(folder, source, options.publish);
  if (options.json)
    print_json(answer);
  else
    fmt::print("{} v{}\n", text_of(answer, "name"), text_of(answer, "version"));
  return exit_success;
}

}  // namespace

ExitCode show_workflows(const WorkflowsOptions& options) {
  auto folder = data_folder(options.data);
  if (!options.publish.empty()) return publish(options, folder);
  if (options.name.empty()) {
    print_table(list_workflows(options.server, folder), options.json, {"name", "version", "digest"},
                "no workflow is published");
    return exit_success;
  }
  WorkflowSource source = read_workflow(options.server, folder, options.name, options.version);
  if (options.json)
    print_json(
        object{{"name", source.name}, {"version", source.version}, {"digest", source.digest}, {"source", source.text}});
  else
    fmt::print("{}{}", source.text, source.text.ends_with('\n') ? "" : "\n");
  return exit_success;
}

namespace {

// What an action has no use for is refused: whoever wrote it expects it to do something.
void check(const KeysOptions& options) {
  using enum KeysOptions::What;
  static constexpr std::array names{"list", "create", "revoke", "rotate"};
  const std::string action = fmt::format("pawl keys {}", names[static_cast<std::size_t>(options.what)]);
  bool is_of_one = options.what == revoke || options.what == rotate;
  if (is_of_one && options.id.empty()) throw Stop(exit_usage, fmt::format("which key? {} KEY", action));
  if (!is_of_one && !options.id.empty()) throw Stop(exit_usage, fmt::format("{} takes no key", action));
  if (options.what == create && options.role.empty())
    throw Stop(exit_usage, "a new key needs --role: admin, operator, approver, worker, viewer or metrics");
  auto only_for = [&](std::string_view flag, const std::string& value, bool fits) {
    if (!fits && !value.empty()) throw Stop(exit_usage, fmt::format("{} has no use for {}", action, flag));
  };
  only_for("--role", options.role, options.what == create);
  only_for("--name", options.name, options.what == create);
  only_for("--tenant", options.tenant, options.what == create);
  only_for("--expires-in", options.expires_in, options.what == create || options.what == rotate);
  only_for("--overlap", options.overlap, options.what == rotate);
}

}  // namespace

ExitCode manage_keys(const KeysOptions& options) {
  if (options.what == KeysOptions::What::signing) return manage_signing_keys(options);
  check(options);
  Remote remote = Remote::require(options.server, data_folder(options.data));
  using enum KeysOptions::What;
  auto put_if = [](object& body, std::string_view key, const std::string& value) {
    if (!value.empty()) body[key] = value;
  };
  auto show_made = [&](const Json& made) {
    if (options.json) return print_json(made);
    fmt::print("{}\n", text_of(made, "key"));
    fmt::print(stderr, "{} ({}); the key is shown this once\n", text_of(made, "id"), text_of(made, "role"));
  };
  if (options.what == list) {
    print_table(remote.get_all("/keys"), options.json, {"id", "name", "role", "active", "created_at", "expires_at"},
                "no keys");
  } else if (options.what == create) {
    object body{{"role", options.role}};
    put_if(body, "name", options.name);
    put_if(body, "tenant", options.tenant);
    put_if(body, "expires_in", options.expires_in);
    show_made(remote.post("/keys", body));
  } else if (options.what == rotate) {
    object body;
    put_if(body, "overlap", options.overlap);
    put_if(body, "expires_in", options.expires_in);
    show_made(remote.post("/keys/" + percent_encode(options.id) + "/rotate", body));
  } else {
    Json gone = remote.remove("/keys/" + percent_encode(options.id));
    if (options.json)
      print_json(gone);
    else
      fmt::print("{} is revoked\n", text_of(gone, "id"));
  }
  return exit_success;
}

namespace {

// Asks for what the flags say; the tenant as it is after that.
Json change_tenant(const Remote& remote, const TenantsOptions& options) {
  const std::string path = "/tenants/" + percent_encode(options.name);
  object body;
  for (const auto& [name, limit] : options.limits) body[name] = limit ? Json(*limit) : Json(nullptr);
  if (options.weight) body["weight"] = *options.weight;
  if (!body.empty()) remote.patch(path, body);
  object why;
  if (!options.reason.empty()) why["reason"] = options.reason;
  if (options.suspend) remote.post(path + "/suspend", why);
  if (options.resume) remote.post(path + "/resume", object{});
  return remote.get(path);
}

void show_tenant(const Json& tenant) {
  fmt::print("{} {}, weight {}\n", text_of(tenant, "id"), text_of(tenant, "name"), text_of(tenant, "weight"));
  if (const Json& suspended = tenant.at("suspended"); suspended.is_object())
    fmt::print("suspended since {}: {}\n", text_of(suspended, "since"), text_of(suspended, "reason"));
  if (tenant.at("frozen").as_bool()) fmt::print("effects are frozen: pawl freeze --list\n");
  boost::json::array rows;
  for (const auto& [name, ceiling] : tenant.at("ceiling").as_object())
    rows.push_back(object{{"limit", name}, {"ceiling", ceiling}, {"own", tenant.at("caps").at(name)}});
  fmt::print("\n");
  print_table(object{{"items", std::move(rows)}}, false, {"limit", "ceiling", "own"}, "");
}

// One word for the table: what keeps a tenant from working.
Json with_state(Json page) {
  for (Json& tenant : page.at("items").as_array()) {
    object& fields = tenant.as_object();
    fields["state"] = fields.at("suspended").is_object() ? "suspended" : fields.at("frozen").as_bool() ? "frozen" : "";
  }
  return page;
}

}  // namespace

ExitCode manage_tenants(const TenantsOptions& options) {
  if (options.name.empty() && !options.limits.empty())
    throw Stop(exit_usage, "which tenant? pawl tenants TENANT with its limits");
  Remote remote = Remote::require(options.server, data_folder(options.data));
  if (!options.name.empty()) {
    Json tenant = change_tenant(remote, options);
    if (options.json)
      print_json(tenant);
    else
      show_tenant(tenant);
    return exit_success;
  }
  if (options.create.empty()) {
    Json all = remote.get_all("/tenants");
    print_table(options.json ? std::move(all) : with_state(std::move(all)), options.json,
                {"id", "name", "weight", "state"}, "no tenants");
    return exit_success;
  }
  Json made = remote.post("/tenants", object{{"name", options.create}});
  if (options.json)
    print_json(made);
  else
    fmt::print("{} {}\nmake its first key with: pawl keys create --tenant {} --role admin\n", text_of(made, "id"),
               text_of(made, "name"), text_of(made, "name"));
  return exit_success;
}

}  // namespace pawl
