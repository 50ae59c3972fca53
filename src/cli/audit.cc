// pawl audit: who changed what in a tenant, newest first, from a server or a folder.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <map>

#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "evidence/audit_log.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t audit_page_max = 500;

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

std::string types_of(const AuditOptions& options) {
  std::string out;
  for (const std::string& type : options.types) out += (out.empty() ? "" : ",") + type;
  return out;
}

array audit_of(const Remote& remote, const AuditOptions& options) {
  std::string query;
  const std::string types = types_of(options);
  for (const auto& [key, value] :
       {std::pair("actor", &options.actor), std::pair("type", &types), std::pair("object", &options.object)})
    if (!value->empty()) query += fmt::format("&{}={}", key, percent_encode(*value));
  for (const auto& [key, moment] : {std::pair("since", &options.since), std::pair("until", &options.until)})
    if (*moment) query += fmt::format("&{}={}", key, percent_encode(print_time(**moment)));
  return collect(options.limit, [&](std::optional<std::uint64_t> before, std::size_t limit) {
    return remote.get(
        fmt::format("/audit?limit={}{}{}", limit, before ? fmt::format("&cursor={}", *before) : "", query));
  });
}

array audit_of(Store& store, const AuditOptions& options) {
  AuditFilter filter{.actor = options.actor,
                     .type = types_of(options),
                     .object = options.object,
                     .since = options.since,
                     .until = options.until};
  const std::vector<Tenant> tenants = store.tenants();
  std::vector<Json> found;
  for (const Tenant& tenant : tenants)
    for (Json& item : collect(options.limit, [&](std::optional<std::uint64_t> before, std::size_t limit) {
           filter.before = before;
           filter.limit = limit;
           return audit_page_object(read_audit_log(store, tenant.id, filter));
         })) {
      if (tenants.size() > 1) item.as_object()["tenant"] = tenant.name;
      found.push_back(std::move(item));
    }
  // Newest first, whoever's it is; the order within a tenant stays.
  std::ranges::stable_sort(found, std::ranges::greater{},
                           [](const Json& item) { return item.at("event").at("at").to_number<std::int64_t>(); });
  if (found.size() > options.limit) found.resize(options.limit);
  array out;
  for (Json& item : found) out.push_back(std::move(item));
  return out;
}

constexpr std::size_t table_columns = 80;

// Ids end in what tells them apart: "key:01kaw3v9m8f2hr4x6q0t7c5ezy" is "key:7c5ezy".
std::string with_short_ids(std::string text) {
  constexpr std::size_t id_chars = 26, shown_chars = 6;
  auto is_of_id = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); };
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    std::size_t end = begin;
    while (end < text.size() && is_of_id(text[end])) ++end;
    if (end - begin == id_chars) text.erase(begin, id_chars - shown_chars);
    while (begin < text.size() && is_of_id(text[begin])) ++begin;
  }
  return text;
}

// What an event is about, and of a refused request what was asked for.
std::string about(const Json& event) {
  const std::string type = text_of(event, "type");
  if (type == "checkpoint.made") return "checkpoint " + canonical(event.at("number"));
  const std::string subject = audit_subject(event);
  return type == "transition.refused" ? subject + " " + text_of(event, "requested") : subject;
}

// For people: short, and what the event is about in one column. `--json` has it all.
std::vector<std::string> make_readable(array& items) {
  std::vector<std::string> columns{"seq", "at", "by", "type"};
  const Look look = terminal_traits(true).look;
  std::map<std::string, std::size_t> widths;
  for (Json& item : items) {
    object& row = item.as_object();
    if (row.contains("tenant") && columns[0] != "tenant") columns.insert(columns.begin(), "tenant");
    std::string at(row.at("at").as_string());
    at = at.substr(0, at.find_first_of(".Z"));
    std::ranges::replace(at, 'T', ' ');
    row["at"] = at;
    row["by"] = shorten(with_short_ids(std::string(row.at("by").as_string())), 16, look);
    for (const std::string& column : columns)
      widths[column] = std::max({widths[column], column.size(), columns_of(text_of(item, column))});
  }
  std::size_t taken = 0;
  for (const std::string& column : columns) taken += widths[column] + 2;
  const std::size_t left = std::max<std::size_t>(table_columns - std::min(taken, table_columns), 8);
  for (Json& item : items) item.as_object()["about"] = shorten(with_short_ids(about(item.at("event"))), left, look);
  columns.emplace_back("about");
  return columns;
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
  std::vector<std::string> columns;
  if (!options.json) columns = make_readable(items);
  print_table(object{{"items", std::move(items)}}, options.json, columns, "no entries match");
  return exit_success;
}

}  // namespace pawl
