// pawl caps: what a tenant may use at most, and its share beside others.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/remote.h"
#include "cli/table.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

void change(const Remote& remote, const CapsOptions& options) {
  object body;
  for (const auto& [name, cap] : options.caps) body[name] = cap ? Json(*cap) : Json(nullptr);
  if (options.weight && options.workspace.empty()) body["weight"] = *options.weight;
  if (!body.empty()) remote.patch("/tenant/caps", body);
  if (!options.workspace.empty())
    remote.put("/workspaces/" + percent_encode(options.workspace),
               boost::json::serialize(object{{"weight", *options.weight}}));
}

void show(const Json& load) {
  array rows;
  const object& held_back = load.at("held_back").as_object();
  for (const auto& [name, limit] : load.at("limits").as_object())
    rows.push_back(object{
        {"cap", name}, {"limit", limit}, {"held back", held_back.contains(name) ? held_back.at(name) : Json(nullptr)}});
  print_table(object{{"items", std::move(rows)}}, false, {"cap", "limit", "held back"}, "");
  fmt::print("\nweight {}, {} running, {} queued\n", text_of(load, "weight"), text_of(load, "running"),
             text_of(load, "queued"));
  for (const Json& workspace : load.at("workspaces").as_array())
    fmt::print("workspace {}: weight {}\n", text_of(workspace, "name"), text_of(workspace, "weight"));
}

}  // namespace

ExitCode manage_caps(const CapsOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  change(remote, options);
  Json load = remote.get("/tenant/caps");
  if (options.json)
    print_json(load);
  else
    show(load);
  return exit_success;
}

}  // namespace pawl
