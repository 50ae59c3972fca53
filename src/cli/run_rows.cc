#include "cli/run_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "cli/describe.h"
#include "cli/history.h"

namespace pawl {

namespace {

// A server says what a run does in words; a status and a phase are what they are made of.
RunPhase phase_of_word(const Json& sub_state) {
  const auto word = sub_state.is_string() ? parse_enum<SubState>(sub_state.get_string()) : std::nullopt;
  if (word == SubState::backing_off) return RunPhase::backing_off;
  return word == SubState::error ? RunPhase::error : RunPhase::plain;
}

}  // namespace

RunRows::RunRows(const std::string& server_flag, std::filesystem::path folder)
    : remote_(Remote::find_named(server_flag, folder)), folder_(std::move(folder)) {}

std::vector<ListedRun> RunRows::newest(const RunsWanted& wanted, std::size_t limit) const {
  return remote_ ? from_server(*remote_, wanted, limit) : newest_runs(*open_to_read(folder_), wanted, limit);
}

void RunRows::answer_within(std::chrono::milliseconds limit) {
  if (remote_) remote_->answer_within(limit);
}

std::vector<ListedRun> RunRows::newest_with_reasons(const RunsWanted& wanted, std::size_t limit) const {
  auto rows = newest(wanted, limit);
  const bool some_wait = std::ranges::any_of(rows, [](const ListedRun& row) { return !is_terminal(row.status); });
  if (remote_ || !some_wait) return rows;
  try {
    const auto server = Remote::find("", folder_);
    if (!server) return rows;
    for (const ListedRun& known : from_server(*server, wanted, limit))
      for (ListedRun& row : rows)
        if (row.id == known.id && row.seq == known.seq) row.waits_for = known.waits_for;
  } catch (const Stop&) {
    // The folder has said what it knows.
  }
  return rows;
}

std::vector<ListedRun> RunRows::from_server(const Remote& remote, const RunsWanted& wanted, std::size_t limit) {
  std::vector<ListedRun> rows;
  std::string filter;
  if (wanted.status) filter += fmt::format("&status={}", to_string(*wanted.status));
  if (wanted.sub_state) filter += fmt::format("&sub_state={}", to_string(*wanted.sub_state));
  if (wanted.provider) filter += fmt::format("&provider={}", to_string(*wanted.provider));
  if (wanted.retries_min > 0) filter += fmt::format("&retry_count_min={}", wanted.retries_min);
  auto add = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) filter += fmt::format("&{}={}", name, percent_encode(text));
  };
  add("workflow", wanted.workflow);
  add("workspace", wanted.workspace);
  add("error_code", wanted.error_code);
  add("q", wanted.text);
  add("since", wanted.since ? print_time(*wanted.since) : "");
  add("until", wanted.until ? print_time(*wanted.until) : "");
  std::string cursor;
  while (rows.size() < limit) {
    std::string path = fmt::format("/runs?limit={}{}", std::min<std::size_t>(limit - rows.size(), 500), filter);
    if (!cursor.empty()) path += "&cursor=" + cursor;
    Json page = remote.get(path);
    for (const Json& item : page.at("items").as_array()) {
      ListedRun& row = rows.emplace_back();
      row.id = RunId::parse(item.at("id").as_string()).value_or(RunId{});
      row.tenant = TenantId::parse(item.at("tenant_id").as_string()).value_or(TenantId{});
      row.workflow.text = item.at("workflow").as_string();
      row.version = static_cast<int>(item.at("version").as_int64());
      row.workspace.text = item.at("workspace").as_string();
      row.status = parse_enum<RunStatus>(item.at("status").as_string()).value_or(RunStatus::created);
      row.phase = phase_of_word(item.at("sub_state"));
      row.summary.provider = parse_enum<Provider>(item.at("provider").as_string()).value_or(Provider::native);
      if (item.at("provider_state").is_string()) row.summary.provider_state = item.at("provider_state").as_string();
      row.summary.retries = static_cast<int>(item.at("retry_count").as_int64());
      if (item.at("error_code").is_string()) row.error_code = item.at("error_code").as_string();
      if (item.at("retryable").is_bool()) row.summary.retryable = item.at("retryable").get_bool();
      row.created_at = parse_time(item.at("created_at").as_string()).value_or(Instant{});
      row.updated_at = parse_time(item.at("updated_at").as_string()).value_or(Instant{});
      row.seq = static_cast<std::uint64_t>(item.at("seq").as_int64());
      // An older server says neither of these.
      if (const Json* end = item.as_object().if_contains("finished_at"); end && end->is_string())
        row.summary.finished_at = parse_time(end->get_string()).value_or(Instant{});
      if (const Json* wait = item.as_object().if_contains("waits_for"); wait && wait->is_object())
        row.waits_for = printable(wait->at("text").as_string());
    }
    if (page.at("next_cursor").is_null()) break;
    cursor = page.at("next_cursor").as_string();
  }
  return rows;
}

boost::json::object row_object(const ListedRun& row) {
  const std::string_view sub = row.sub_state();
  const std::string& state = row.summary.provider_state;
  return {{"id", row.id.str()},
          {"tenant_id", row.tenant.str()},
          {"workflow", row.workflow.text},
          {"version", row.version},
          {"workspace", row.workspace.text},
          {"provider", to_string(row.summary.provider)},
          {"status", to_string(row.status)},
          {"sub_state", sub.empty() ? Json(nullptr) : Json(sub)},
          {"provider_state", state.empty() ? Json(nullptr) : Json(state)},
          {"retry_count", row.summary.retries},
          {"error_code", row.error_code.empty() ? Json(nullptr) : Json(row.error_code)},
          {"retryable", row.summary.retryable ? Json(*row.summary.retryable) : Json(nullptr)},
          {"created_at", print_time(row.created_at)},
          {"updated_at", print_time(row.updated_at)},
          {"finished_at", row.summary.finished_at.ms == 0 ? Json(nullptr) : Json(print_time(row.summary.finished_at))},
          {"seq", row.seq},
          {"waits_for", row.waits_for.empty() ? Json(nullptr) : Json(row.waits_for)}};
}

namespace {

constexpr std::size_t workflow_width = 18;
constexpr std::size_t remark_margin = 4;
constexpr std::size_t remark_columns_min = 20;

struct Remark {
  Ink ink;
  std::string text;
};

// What else there is to know of it, beside what every run has.
std::vector<Remark> remarks(const ListedRun& row) {
  std::vector<Remark> out;
  if (!row.error_code.empty()) out.push_back({Ink::red, row.error_code});
  if (row.summary.provider != Provider::native) out.push_back({Ink::dim, std::string(to_string(row.summary.provider))});
  if (!is_terminal(row.status) && (row.phase == RunPhase::backing_off || row.phase == RunPhase::error))
    out.push_back({Ink::yellow, fmt::format("{}, retries: {}", row.sub_state(), row.summary.retries)});
  if (!row.waits_for.empty()) out.push_back({Ink::yellow, row.waits_for});
  return out;
}

Line joined(const std::vector<Remark>& remarks) {
  Line line;
  for (const Remark& each : remarks) {
    if (line.columns() > 0) line.add("  ");
    line.add(each.ink, each.text);
  }
  return line;
}

}  // namespace

std::vector<Line> row_lines(const ListedRun& row, Instant now, const Look& look, std::size_t columns) {
  Line line;
  line.add(ink_of(row.status), sign_of(row.status, look)).add(" ").add(row.id.str()).add("  ");
  std::size_t column = line.columns();
  line.add(ink_of(row.status), to_string(row.status)).to_column(column += 9);
  std::string name = fmt::format("{} v{}", row.workflow.text, row.version);
  line.add(columns == 0 ? name : shorten(name, workflow_width, look)).to_column(column += workflow_width + 1);
  line.add_right(Ink::dim, print_elapsed(now - row.created_at), 7).add(Ink::dim, " ago");
  // The latest event may come later: that an effect was undone.
  const Instant end = row.summary.finished_at.ms == 0 ? row.updated_at : row.summary.finished_at;
  if (is_terminal(row.status)) line.add_right(Ink::plain, print_elapsed(end - row.created_at), 7);
  const std::vector<Remark> more = remarks(row);
  const Line in_one = joined(more);
  if (more.empty()) return {line};
  if (columns == 0 || line.columns() + 2 + in_one.columns() <= columns) return {line.add("  ").append(in_one)};
  const std::string margin(remark_margin, ' ');
  if (margin.size() + in_one.columns() <= columns) return {line, Line(Ink::plain, margin).append(in_one)};
  std::vector<Line> out{line};
  for (const Remark& each : more)
    for (const std::string& words :
         wrap(each.text, std::max(columns, margin.size() + remark_columns_min) - margin.size()))
      out.push_back(Line(Ink::plain, margin).add(each.ink, words));
  return out;
}

}  // namespace pawl
