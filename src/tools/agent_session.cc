#include "tools/agent_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <fstream>
#include <iterator>

#include "core/json.h"
#include "crypto/hmac.h"
#include "crypto/sha256.h"
#include "process/descriptor.h"
#include "process/private_folder.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;
using boost::json::object;

std::string uuid_from(std::string_view bytes) {
  std::string hex;
  for (std::size_t i = 0; i < 16; ++i) {
    auto byte = static_cast<unsigned char>(bytes[i]);
    if (i == 6) byte = static_cast<unsigned char>((byte & 0x0F) | 0x40);
    if (i == 8) byte = static_cast<unsigned char>((byte & 0x3F) | 0x80);
    if (i == 4 || i == 6 || i == 8 || i == 10) hex += '-';
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

object read_object(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const auto parsed = parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
  return parsed && parsed->is_object() ? parsed->get_object() : object{};
}

Money money_in(const object& in, std::string_view key) { return parse_money(text_in(in, key)).value_or(Money{}); }

// In place, in one write of one length: to replace a file by another makes some file systems write it out at once,
// which takes longer than all else that starting an agent needs. A torn one is no JSON, and counts as none.
void write_object(const fs::path& path, const object& what) {
  constexpr std::size_t bytes = 512;
  auto text = boost::json::serialize(what) + "\n";
  if (text.size() < bytes) text.append(bytes - text.size() - 1, ' ').append("\n");
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) return;
  [[maybe_unused]] const auto ignored = ::pwrite(file.get(), text.data(), text.size(), 0);
  [[maybe_unused]] const auto cut = ::ftruncate(file.get(), static_cast<off_t>(text.size()));
}

// A session's name becomes that of a folder.
std::string folder_name(const std::string& session) { return is_uuid(session) ? session : sha256(session).hex(); }

fs::path session_folder(const AgentContext& context, const Lease& lease, const std::string& session) {
  return context.data / "agents" / lease.tenant.str() / folder_name(session);
}

fs::path step_file(const AgentContext& context, RunId run, const StepId& step) {
  return context.logs.folder(run, step) / "agent.json";
}

fs::path denials_file(const AgentContext& context, RunId run, const StepId& step) {
  return context.logs.folder(run, step) / "denials.json";
}

}  // namespace

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (is_dash ? text[i] != '-' : !std::isxdigit(static_cast<unsigned char>(text[i]))) return false;
  }
  return true;
}

std::string random_uuid() { return uuid_from(random_bytes(16)); }

std::string uuid_of(RunId run, const StepId& step) {
  return uuid_from(sha256("agent session\n" + run.str(), "\n" + step.str()).view());
}

AgentSession AgentSession::load(const AgentContext& context, const Lease& lease, std::string wanted) {
  AgentSession out;
  const auto step = read_object(step_file(context, lease.run, lease.step));
  out.id = text_in(step, "session_id");
  out.is_recorded = !out.id.empty();
  out.workspace = text_in(step, "folder");
  out.spent = money_in(step, "spent_usd");
  const auto begun = text_in(step, "begun");
  out.has_begun = !out.id.empty() && begun == "yes";
  out.was_started = out.has_begun || begun == "started";
  if (out.id.empty()) out.id = wanted.empty() ? uuid_of(lease.run, lease.step) : std::move(wanted);
  out.find_costs(context, lease);
  out.find_denials(context, lease.run, lease.step);
  return out;
}

void AgentSession::find_costs(const AgentContext& context, const Lease& lease) {
  folder = session_folder(context, lease, id);
  const auto session = read_object(folder / "session.json");
  total = money_in(session, "total_usd");
  untold = money_in(session, "untold_usd");
}

void AgentSession::find_denials(const AgentContext& context, RunId run, const StepId& step) {
  const auto file = read_object(denials_file(context, run, step));
  const Json* list = file.if_contains("denials");
  if (!list || !list->is_array()) return;
  for (const Json& each : list->get_array()) {
    const auto* denial = each.if_object();
    const Json* input = denial ? denial->if_contains("input") : nullptr;
    if (input && denials.size() < agent_denials_max) denials.push_back({text_in(*denial, "tool"), canonical(*input)});
  }
  if (const Json* more = file.if_contains("left_out"); more && more->is_int64() && more->get_int64() > 0)
    denials_left_out = static_cast<std::size_t>(more->get_int64());
}

void AgentSession::note_denials(const AgentContext& context, const Lease& lease, const AgentStory& story,
                                const LogSecrets& secrets) {
  const auto& new_ones = story.result ? story.result->denials : story.denials;
  if (story.result) denials_left_out += story.result->denials_left_out;
  for (const AgentDenial& each : new_ones) {
    if (denials.size() < agent_denials_max)
      denials.push_back({secrets.scrubber.text(each.tool), secrets.scrubber.json(each.input)});
    else
      ++denials_left_out;
  }
  if (denials.empty()) return;
  boost::json::array list;
  for (const AgentDenial& each : denials) list.push_back(object{{"tool", each.tool}, {"input", value_of(each.input)}});
  write_object(denials_file(context, lease.run, lease.step),
               {{"denials", std::move(list)}, {"left_out", static_cast<std::int64_t>(denials_left_out)}});
}

void AgentSession::go_on_with(const AgentContext& context, const Lease& lease, RunId earlier) {
  const auto step = read_object(step_file(context, earlier, lease.step));
  auto found = text_in(step, "session_id");
  if (found.empty() || text_in(step, "begun") != "yes") return;
  id = std::move(found);
  has_begun = was_started = true;
  workspace = text_in(step, "folder");
  find_costs(context, lease);
  find_denials(context, earlier, lease.step);
}

void AgentSession::save(const AgentContext& context, const Lease& lease) const {
  std::error_code ignored;
  const auto place = session_folder(context, lease, id);
  make_private_folders(place, ignored);
  write_object(place / "session.json",
               {{"session_id", id}, {"total_usd", print_money(total)}, {"untold_usd", print_money(untold)}});
  write_object(step_file(context, lease.run, lease.step), {{"session_id", id},
                                                           {"folder", workspace},
                                                           {"begun", has_begun     ? "yes"
                                                                     : was_started ? "started"
                                                                                   : "no"},
                                                           {"spent_usd", print_money(spent)}});
}

void AgentSession::begin_anew(const AgentContext& context, const Lease& lease) {
  id = random_uuid();
  was_started = has_begun = false;
  total = {};
  folder = session_folder(context, lease, id);
}

}  // namespace pawl
