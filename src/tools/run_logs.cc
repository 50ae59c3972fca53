#include "tools/run_logs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "core/characters.h"
#include "process/private_folder.h"
#include "tools/outcome.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view ended_name = "ended";
// What is held back at least while secrets are looked for; longer ones are held back whole.
constexpr std::size_t hold_bytes = std::size_t{16} << 10;
constexpr std::size_t hold_bytes_max = std::size_t{1} << 20;
constexpr Duration sweep_spares = std::chrono::hours(1);

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(out) : std::nullopt;
}

std::string piece_name(LogStream stream, std::uint64_t begin) {
  return fmt::format("{}.{:020}.log", to_string(stream), begin);
}

struct Piece {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  fs::path path;

  std::uint64_t end() const { return begin + bytes; }
};

// In their order.
std::vector<Piece> pieces_of(const fs::path& folder, LogStream stream) {
  std::vector<Piece> out;
  const auto prefix = fmt::format("{}.", to_string(stream));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".log")) continue;
    const auto begin =
        number_of<std::uint64_t>(std::string_view(name).substr(prefix.size(), name.size() - prefix.size() - 4));
    struct stat status {};
    // Not through a link: a program that can write here must not choose what is read.
    if (!begin || ::lstat(entry.path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    out.push_back({*begin, static_cast<std::uint64_t>(status.st_size), entry.path()});
  }
  std::ranges::sort(out, {}, &Piece::begin);
  return out;
}

std::string read_piece(const Piece& piece, std::uint64_t from, std::size_t bytes_max) {
  const Descriptor file(::open(piece.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::string out(std::min<std::uint64_t>(bytes_max, piece.end() - from), '\0');
  std::size_t got = 0;
  while (file.is_open() && got < out.size()) {
    const auto now =
        ::pread(file.get(), out.data() + got, out.size() - got, static_cast<off_t>(from - piece.begin + got));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) break;
    got += static_cast<std::size_t>(now);
  }
  out.resize(got);
  return out;
}

// How many bytes at the end are the beginning of a character.
std::size_t torn_tail(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto c = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (c < 0x80) return 0;
    if (c >= 0xC0) {
      const std::size_t whole = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
      return back < whole ? back : 0;
    }
  }
  return 0;
}

std::optional<int> last_attempt(const fs::path& folder) {
  std::optional<int> last;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (const auto attempt = number_of<int>(entry.path().filename().string()))
      last = std::max(last.value_or(0), *attempt);
  return last;
}

}  // namespace

LogWriter::LogWriter(fs::path folder, LogStream stream, const LogLimits& limits, const LogSecrets& secrets)
    : folder_(std::move(folder)), stream_(stream), limits_(limits), secrets_(secrets) {
  for (const Piece& piece : pieces_of(folder_, stream_)) {
    pieces_.emplace_back(piece.begin, piece.bytes);
    kept_bytes_ += piece.bytes;
    size_ = piece.end();
  }
}

void LogWriter::write(std::string_view bytes) {
  if (secrets_.scrubber.empty()) return put(bytes);
  held_.append(bytes);
  // Up to the last end of a line no secret of one line can begin that ends later.
  const auto end = secrets_.has_lines ? held_.npos : held_.rfind('\n');
  if (end != held_.npos) {
    put(secrets_.scrubber.text(std::string_view(held_).substr(0, end + 1)));
    held_.erase(0, end + 1);
  }
  if (held_.size() <= (secrets_.has_lines ? 4 * hold_bytes : hold_bytes_max)) return;
  const auto sure = held_.size() - hold_bytes;
  const auto clean = secrets_.scrubber.text(held_);
  if (clean.size() <= hold_bytes) return;
  put(std::string_view(clean).substr(0, std::min(sure, clean.size() - hold_bytes)));
  held_ = clean.substr(std::min(sure, clean.size() - hold_bytes));
}

void LogWriter::flush() {
  if (held_.empty()) return;
  put(secrets_.scrubber.text(held_));
  held_.clear();
}

void LogWriter::put(std::string_view bytes) {
  while (!bytes.empty() && !is_broken_) {
    if ((!piece_.is_open() || piece_bytes_ >= limits_.piece_bytes_max) && !open_piece()) {
      is_broken_ = true;
      return;
    }
    const auto now = bytes.substr(0, limits_.piece_bytes_max - piece_bytes_);
    const auto written = ::write(piece_.get(), now.data(), now.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      is_broken_ = true;
      return;
    }
    const auto count = static_cast<std::size_t>(written);
    bytes.remove_prefix(count);
    piece_bytes_ += count;
    pieces_.back().second += count;
    kept_bytes_ += count;
    size_ += count;
  }
}

bool LogWriter::open_piece() {
  // The first piece stays: it says how everything began. Room for a whole new one is made before it begins.
  while (pieces_.size() > 2 && kept_bytes_ + limits_.piece_bytes_max > limits_.stream_bytes_max) {
    const auto [begin, bytes] = pieces_[1];
    std::error_code ignored;
    fs::remove(folder_ / piece_name(stream_, begin), ignored);
    kept_bytes_ -= bytes;
    pieces_.erase(pieces_.begin() + 1);
  }
  const auto path = folder_ / piece_name(stream_, size_);
  piece_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  piece_bytes_ = 0;
  pieces_.emplace_back(size_, 0);
  return piece_.is_open();
}

fs::path RunLogs::folder(RunId run, const StepId& step) const { return root_ / run.str() / step.str(); }

fs::path RunLogs::folder(const LogPlace& place) const {
  return folder(place.run, place.step) / std::to_string(place.attempt);
}

fs::path RunLogs::begin(const LogPlace& place) const {
  const auto path = folder(place);
  std::error_code error;
  make_private_folders(path, error);
  if (error) throw std::system_error(error, "cannot make the folder for logs " + path.string());
  // An attempt that was given back has its number again.
  fs::remove(path / ended_name, error);
  return path;
}

void RunLogs::end(const LogPlace& place) const {
  const auto path = folder(place) / ended_name;
  const Descriptor mark(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

std::vector<StepId> RunLogs::steps(RunId run) const {
  std::vector<StepId> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_ / run.str(), error))
    if (is_valid_name(entry.path().filename().string())) out.push_back({entry.path().filename().string()});
  std::ranges::sort(out);
  return out;
}

std::optional<LogPart> RunLogs::read(RunId run, const StepId& step, const LogQuery& query) const {
  if (!is_valid_name(step.str())) return std::nullopt;
  const auto attempt = query.attempt ? query.attempt : last_attempt(folder(run, step));
  if (!attempt) return std::nullopt;
  const auto place = folder({run, step, *attempt});
  std::error_code error;
  if (!fs::is_directory(place, error)) return std::nullopt;
  // Looked at first: what is written after this look is then not taken for the end.
  const bool has_ended = fs::exists(place / ended_name, error);
  const auto pieces = pieces_of(place, query.stream);
  const std::uint64_t size = pieces.empty() ? 0 : pieces.back().end();
  LogPart out{.attempt = *attempt, .from = query.after, .text = {}};
  if (query.tail) out.from = size - std::min(size, *query.tail);
  out.from = std::min(out.from, size);
  out.next = out.from;
  for (const Piece& piece : pieces) {
    if (piece.end() <= out.next || out.text.size() >= query.bytes_max) continue;
    if (piece.begin > out.next) {
      if (!out.text.empty()) break;  // a gap: the next part begins behind it
      out.from = out.next = piece.begin;
    }
    auto bytes = read_piece(piece, out.next, query.bytes_max - out.text.size());
    out.next += bytes.size();
    out.text += bytes;
  }
  out.ended = has_ended && out.next >= size;
  if (const auto torn = torn_tail(out.text); torn > 0 && !out.ended && torn < out.text.size()) {
    out.text.erase(out.text.size() - torn);
    out.next -= torn;
  }
  out.text = repaired_utf8(std::move(out.text));
  return out;
}

int RunLogs::sweep(Instant now) const {
  struct Kept {
    fs::path path;
    std::int64_t age_ms = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<Kept> runs;
  std::uint64_t total = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_, error)) {
    Kept kept{.path = entry.path()};
    std::int64_t changed_ms = 0;
    for (auto it = fs::recursive_directory_iterator(entry.path(), error); it != fs::recursive_directory_iterator();
         it.increment(error)) {
      struct stat status {};
      if (::lstat(it->path().c_str(), &status) != 0) continue;
      if (S_ISREG(status.st_mode)) kept.bytes += static_cast<std::uint64_t>(status.st_size);
      changed_ms = std::max(changed_ms, static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1000);
    }
    kept.age_ms = now.ms - changed_ms;
    total += kept.bytes;
    runs.push_back(std::move(kept));
  }
  std::ranges::sort(runs, std::ranges::greater{}, &Kept::age_ms);
  int removed = 0;
  for (const Kept& kept : runs) {
    const bool is_old = kept.age_ms > limits_.keep.count();
    if (kept.age_ms <= sweep_spares.count() || (!is_old && total <= limits_.all_bytes_max)) continue;
    fs::remove_all(kept.path, error);
    total -= kept.bytes;
    ++removed;
  }
  return removed;
}

}  // namespace pawl
