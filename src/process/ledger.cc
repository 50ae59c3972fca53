#include "process/ledger.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>

#include "process/descriptor.h"
#include "process/private_folder.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

constexpr int rounds_max = 20;
constexpr auto round_pause = std::chrono::milliseconds(5);

struct Stat {
  char state = '?';
  pid_t group = 0;
  pid_t session = 0;
  std::uint64_t started = 0;  // in clock ticks since the machine began

  bool is_alive() const { return state != 'Z' && state != 'X'; }
};

// Empty when there is no such file, or no longer: reading about a process that ends meanwhile is an error of the
// stream, which an iterator over its buffer would throw.
std::string read_all(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(out).str();
}

std::optional<Stat> stat_of(pid_t pid) {
  const auto text = read_all("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = text.rfind(')');  // a program may have any name
  if (name_end == text.npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  Stat out;
  std::string ignored;
  rest >> out.state >> ignored >> out.group >> out.session;
  for (int field = 7; field < 22; ++field) rest >> ignored;
  rest >> out.started;
  return rest ? std::optional(out) : std::nullopt;
}

std::string boot_id() {
  auto text = read_all("/proc/sys/kernel/random/boot_id");
  std::erase_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)); });
  return text.empty() ? "unknown" : text;
}

std::string new_mark() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  std::string out;
  for (const unsigned char byte : bytes) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

// Of a process that was started: how those who come of it are known.
struct Trace {
  std::string mark;
  pid_t pid = 0;
  std::uint64_t started = 0;
};

bool has_mark(pid_t pid, const std::string& mark) {
  const auto environment = read_all("/proc/" + std::to_string(pid) + "/environ");
  const auto wanted = std::string(mark_variable) + "=" + mark;
  const auto at = environment.find(wanted);
  return at != environment.npos && (at == 0 || environment[at - 1] == '\0');
}

bool comes_of(pid_t pid, const Stat& stat, const Trace& trace) {
  // While a group or a session has members nobody else is given its number, so an older start cannot be.
  const bool in_group = trace.pid > 0 && (stat.group == trace.pid || stat.session == trace.pid);
  if (in_group && stat.started >= trace.started) {
    const auto leader = stat_of(trace.pid);
    if (!leader || leader->started == trace.started) return true;
  }
  return has_mark(pid, trace.mark);
}

int kill_once(const std::vector<Trace>& traces) {
  int killed = 0;
  std::error_code error;
  const uid_t us = ::getuid();
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const auto name = entry.path().filename().string();
    if (name.empty() || !std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c); })) continue;
    struct stat owner {};
    if (::stat(entry.path().c_str(), &owner) != 0 || (us != 0 && owner.st_uid != us)) continue;
    const pid_t pid = std::stoi(name);
    if (pid == ::getpid()) continue;
    const auto stat = stat_of(pid);
    if (!stat || !stat->is_alive()) continue;
    for (const Trace& trace : traces)
      if (comes_of(pid, *stat, trace)) {
        killed += ::kill(pid, SIGKILL) == 0 ? 1 : 0;
        break;
      }
  }
  return killed;
}

// Until a look finds nobody: what was killed may have forked just before.
int kill_all(const std::vector<Trace>& traces) {
  int killed = 0;
  for (int round = 0; !traces.empty() && round < rounds_max; ++round) {
    const int now = kill_once(traces);
    if (now == 0) break;
    killed += now;
    std::this_thread::sleep_for(round_pause);
  }
  return killed;
}

}  // namespace

ProcessLedger::Entry ProcessLedger::enter(const ControlLimits& limits) const {
  std::error_code error;
  make_private_folders(folder_, error);
  auto mark = new_mark();
  auto group = ControlGroup::make("pawl-" + mark, limits);
  auto file = folder_ / mark;
  Entry entry(std::move(file), std::move(mark), std::move(group));
  const auto own = stat_of(::getpid());
  std::ostringstream text;
  text << boot_id() << ' ' << ::getpid() << ' ' << (own ? own->started : 0);
  for (const auto& folder : entry.group_.folders()) text << ' ' << folder;
  text << " |\n";
  entry.write(text.str());
  return entry;
}

std::string ProcessLedger::Entry::variable() const { return std::string(mark_variable) + "=" + mark_; }

void ProcessLedger::Entry::began(pid_t pid) {
  has_begun_ = true;
  const auto stat = stat_of(pid);
  write(std::to_string(pid) + " " + std::to_string(stat ? stat->started : 0) + "\n");
}

// What is there stays: a file that is replaced is written out at once by some file systems, and this one need not
// outlive the machine.
void ProcessLedger::Entry::write(const std::string& text) const {
  const Descriptor file(::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.is_open() || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::system_error(errno, std::generic_category(), "cannot write " + file_.string());
}

ProcessLedger::Entry::~Entry() {
  if (file_.empty()) return;  // moved from
  // A group has them all; only without one is the whole machine looked through.
  if (!group_.folders().empty())
    group_.end();
  else if (has_begun_)
    kill_all({Trace{.mark = mark_, .pid = 0, .started = 0}});
  std::error_code ignored;
  fs::remove(file_, ignored);
}

int ProcessLedger::end_leftovers() const {
  int killed = 0;
  std::vector<Trace> traces;
  std::vector<fs::path> files;
  std::error_code error;
  const auto boot = boot_id();
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    std::istringstream text(read_all(entry.path().string()));
    std::string its_boot;
    pid_t server = 0;
    std::uint64_t server_started = 0;
    Trace trace{.mark = entry.path().stem().string()};
    text >> its_boot >> server >> server_started;
    if (text && its_boot == boot) {
      const auto living = stat_of(server);
      if (living && living->is_alive() && living->started == server_started) continue;  // another pawl on this folder
      std::vector<std::string> groups;
      for (std::string folder; text >> folder && folder != "|";) groups.push_back(folder);
      text >> trace.pid >> trace.started;
      killed += ControlGroup(std::move(groups)).end();
      traces.push_back(std::move(trace));
    }
    files.push_back(entry.path());
  }
  killed += kill_all(traces);
  for (const auto& file : files) fs::remove(file, error);
  return killed;
}

}  // namespace pawl
