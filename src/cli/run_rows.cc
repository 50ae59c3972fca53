#include "cli/run_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "cli/describe.h"
#include "cli/history.h"

namespace pawl {

RunRows::RunRows(const std::string& server_flag, std::filesystem::path folder)
    : remote_(Remote::find_named(server_flag, folder)), folder_(std::move(folder)) {}

std::vector<RunRow> RunRows::newest(std::optional<RunStatus> status, std::size_t limit) const {
  return remote_ ? from_server(status, limit) : newest_runs(*open_to_read(folder_), status, limit);
}

void RunRows::answer_within(std::chrono::milliseconds limit) {
  if (remote_) remote_->answer_within(limit);
}

std::vector<RunRow> RunRows::from_server(std::optional<RunStatus> status, std::size_t limit) const {
  std::vector<RunRow> rows;
  std::string cursor;
  while (rows.size() < limit) {
    std::string path = fmt::format("/runs?limit={}", std::min<std::size_t>(limit - rows.size(), 500));
    if (status) path += fmt::format("&status={}", to_string(*status));
    if (!cursor.empty()) path += "&cursor=" + cursor;
    Json page = remote_->get(path);
    for (const Json& item : page.at("items").as_array()) {
      RunRow& row = rows.emplace_back();
      row.id = RunId::parse(item.at("id").as_string()).value_or(RunId{});
      row.workflow.text = item.at("workflow").as_string();
      row.version = static_cast<int>(item.at("version").as_int64());
      row.workspace.text = item.at("workspace").as_string();
      row.status = parse_enum<RunStatus>(item.at("status").as_string()).value_or(RunStatus::created);
      if (item.at("error_code").is_string()) row.error_code = item.at("error_code").as_string();
      row.created_at = parse_time(item.at("created_at").as_string()).value_or(Instant{});
      row.updated_at = parse_time(item.at("updated_at").as_string()).value_or(Instant{});
      row.seq = static_cast<std::uint64_t>(item.at("seq").as_int64());
    }
    if (page.at("next_cursor").is_null()) break;
    cursor = page.at("next_cursor").as_string();
  }
  return rows;
}

boost::json::object row_object(const RunRow& row) {
  return {{"id", row.id.str()},
          {"workflow", row.workflow.text},
          {"version", row.version},
          {"workspace", row.workspace.text},
          {"status", to_string(row.status)},
          {"error_code", row.error_code.empty() ? Json(nullptr) : Json(row.error_code)},
          {"created_at", print_time(row.created_at)},
          {"updated_at", print_time(row.updated_at)},
          {"seq", row.seq}};
}

Line row_line(const RunRow& row, Instant now, const Look& look) {
  Line line;
  line.add(ink_of(row.status), sign_of(row.status, look)).add(" ").add(row.id.str()).add("  ");
  std::size_t column = line.columns();
  line.add(ink_of(row.status), to_string(row.status)).to_column(column += 9);
  line.add(fmt::format("{} v{}", shorten(row.workflow.text, 24, look), row.version)).to_column(column += 30);
  line.add_right(Ink::dim, print_elapsed(now - row.created_at), 7).add(Ink::dim, " ago");
  if (is_terminal(row.status)) line.add_right(Ink::plain, print_elapsed(row.updated_at - row.created_at), 8);
  if (!row.error_code.empty()) line.add("  ").add(Ink::red, row.error_code);
  return line;
}

}  // namespace pawl
