// pawl audit: who changed what in a tenant, newest first, from a server or a folder.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/table.h"
#include "evidence/audit_log.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t audit_page_max = 500;

Instant read_moment(const std::string& flag, const std::string& text) {
  const auto moment = parse_time(text);
  if (!moment) throw Stop(exit_usage, flag + " must be a time like 2026-11-16T02:21:57Z");
  return *moment;
}

// Pages may be short and not the last: the next ones are asked for until there is enough.
template <class NextPage>
array collect(std::size_t limit, NextPage next_page) {
  array out;
  for (std::optional<std::uint64_t> before;;) {
    Json page = next_page(before, std::min(limit - out.size(), audit_page_max));
    for (Json& item : page.at("items").as_array()) out.push_back(std::move(item));
    const Json& next = page.at("next_cursor");
    if (next.is_null() || out.size() >= limit) return out;
    before = std::stoull(std::string(next.as_string()));
  }
}

array audit_of(const Remote& remote, const AuditOptions& options) {
  std::string query;
  for (const auto& [key, value] :
       {std::pair("actor", &options.actor), std::pair("type", &options.type), std::pair("object", &options.object),
        std::pair("since", &options.since), std::pair("until", &options.until)})
    if (!value->empty()) query += fmt::format("&{}={}", key, percent_encode(*value));
  return collect(options.limit, [&](std::optional<std::uint64_t> before, std::size_t limit) {
    return remote.get(
        fmt::format("/audit?limit={}{}{}", limit, before ? fmt::format("&cursor={}", *before) : "", query));
  });
}

array audit_of(Store& store, const AuditOptions& options) {
  AuditFilter filter{.actor = options.actor, .type = options.type, .object = options.object};
  if (!options.since.empty()) filter.since = read_moment("--since", options.since);
  if (!options.until.empty()) filter.until = read_moment("--until", options.until);
  array out;
  for (const Tenant& tenant : store.tenants())
    for (Json& item : collect(options.limit - out.size(), [&](std::optional<std::uint64_t> before, std::size_t limit) {
           filter.before = before;
           filter.limit = limit;
           return audit_page_object(read_audit_log(store, tenant.id, filter));
         }))
      out.push_back(std::move(item));
  return out;
}

}  // namespace

ExitCode show_audit(const AuditOptions& options) {
  const auto folder = data_folder(options.data);
  const auto remote = Remote::find(options.server, folder);
  array items;
  if (remote) {
    items = audit_of(*remote, options);
  } else {
    Toolbox toolbox;
    open_to_read(folder);
    items = audit_of(*open_folded(folder, toolbox), options);
  }
  // For people: what the event is about, in one column.
  if (!options.json)
    for (Json& item : items) item.as_object()["about"] = audit_subject(item.at("event"));
  print_table(object{{"items", std::move(items)}}, options.json, {"seq", "at", "by", "type", "about"}, "nothing fits");
  return exit_success;
}

}  // namespace pawl
