#include "store/stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "crypto/sha256.h"

namespace pawl {
namespace {

template <class Visit>
void for_each_line(std::string_view lines, Visit visit) {
  while (!lines.empty()) {
    auto end = lines.find('\n');
    visit(lines.substr(0, end), end != lines.npos);
    lines.remove_prefix(end == lines.npos ? lines.size() : end + 1);
  }
}

// Puts lines behind each other and says what does not fit.
class Assembly {
 public:
  Assembly(WholeStream& out, StreamKey key) : out_(out), head_(genesis(key)) {}

  // False once the stream cannot go on.
  bool add(std::uint64_t seq, std::string_view text, bool is_whole) {
    if (!is_whole) return problem("seq {}: the line has no end", seq);
    if (seq <= out_.lines.size()) {  // folded early, while its frame was still needed for others
      if (out_.lines[seq - 1].text != text) return problem("seq {}: history and journal frame differ", seq);
      return true;
    }
    if (seq != out_.lines.size() + 1) return problem("seq {} to {} are missing", out_.lines.size() + 1, seq - 1);
    head_ = chain_next(sha256, head_, text);
    out_.lines.push_back({seq, std::string(text), head_});
    return true;
  }

  void end_of_history() {
    if (out_.lines.size() != out_.folded_seq)
      problem("the history holds {} events and its row says {}", out_.lines.size(), out_.folded_seq);
    else if (out_.folded_seq > 0 && head_ != out_.folded_head)
      problem("seq {}: the recomputed hash {} is not the stored head {}", out_.folded_seq, head_.hex(),
              out_.folded_head.hex());
  }

  template <class... Args>
  bool problem(fmt::format_string<Args...> format, Args&&... args) {
    out_.problems.push_back(fmt::format(format, std::forward<Args>(args)...));
    return false;
  }

 private:
  WholeStream& out_;
  Hash head_;
};

}  // namespace

StreamReader::StreamReader(Store& store, Frames frames) : store_(store), frames_(frames) {
  auto add = [&](Position folded_frame, std::string_view parts) {
    for_each_part(parts, [&](const StreamPart& part) {
      parts_[part.key].push_back({part.first_seq, std::string(part.lines), folded_frame});
    });
  };
  Position first_unfolded = store_.last_position() + 1;
  std::vector<KeptFrame> unfolded;
  store_.for_each_frame([&](Position position, std::string_view parts) {
    first_unfolded = std::min(first_unfolded, position);
    unfolded.push_back({position, std::string(parts)});
  });
  if (frames == Frames::kept && !store_.shared()) {
    Position last = 0;
    for (auto frame = store_.frame_after(0); frame; frame = store_.frame_after(last)) {
      if (frame->position == 1) has_all_frames_ = true;
      if (last != 0 && frame->position != last + 1)
        throw StoreFailure(fmt::format("the journal has no frame {}: the database is damaged", last + 1));
      last = frame->position;
      if (last < first_unfolded) add(last, frame->parts);
    }
  }
  for (const KeptFrame& frame : unfolded) add(0, frame.parts);
}

std::vector<StreamKey> StreamReader::unfolded() const {
  std::vector<StreamKey> keys;
  keys.reserve(parts_.size());
  for (const auto& [key, parts] : parts_) keys.push_back(key);
  return keys;
}

WholeStream StreamReader::read(StreamKey key) {
  WholeStream out;
  auto folded = store_.history(key);
  out.folded_seq = folded.last_seq;
  out.folded_head = folded.head;
  Assembly assembly(out, key);
  std::uint64_t seq = 0;
  for_each_line(folded.lines, [&](std::string_view line, bool is_whole) { assembly.add(++seq, line, is_whole); });
  assembly.end_of_history();

  auto found = parts_.find(key);
  const std::uint64_t first_seq = found == parts_.end() ? out.lines.size() + 1 : found->second.front().first_seq;
  if (has_all_frames_ && first_seq > 1)
    assembly.problem("seq 1 to {} are missing in the frames of the journal", first_seq - 1);
  if (found == parts_.end()) return out;
  std::uint64_t next_seq = 0;
  for (const Part& part : found->second) {
    seq = part.first_seq;
    bool fits = true;
    if (next_seq != 0 && part.first_seq != next_seq)
      fits = assembly.problem("seq {} follows seq {} in the frames of the journal", part.first_seq, next_seq - 1);
    for_each_line(part.lines, [&](std::string_view line, bool is_whole) {
      fits = fits && assembly.add(seq, line, is_whole);
      ++seq;
    });
    next_seq = seq;
    if (part.folded_frame > 0 && seq - 1 > out.folded_seq)
      fits = assembly.problem("seq {} is in frame {}, which is folded, and not in the history", seq - 1,
                              part.folded_frame);
    if (!fits) break;
    if (seq - 1 > out.folded_seq) out.commit_ends.push_back(seq - 1);
  }
  // Frames are dropped from the oldest on, so what the journal says of a stream last is in them. Only a store that
  // stands still can be asked that: beside a live writer the history is newer than the frames.
  if (frames_ == Frames::kept && out.problems.empty() && next_seq != 0 && next_seq - 1 < out.lines.size())
    assembly.problem("seq {} to {} are missing in the frames of the journal", next_seq, out.lines.size());
  return out;
}

}  // namespace pawl
