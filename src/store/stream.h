// A stream as a whole: the part that is folded into history, followed by what still lies in frames only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "store/store.h"

namespace pawl {

struct StreamLine {
  std::uint64_t seq = 0;
  std::string text;  // one event, without its line end
  Hash hash;         // the chain's after this event, recomputed
};

struct WholeStream {
  std::vector<StreamLine> lines;  // from seq 1, without gaps up to the first problem
  // What the store says of the folded part; empty and zero when nothing is folded.
  std::uint64_t folded_seq = 0;
  Hash folded_head;
  // The last line of each commit that is not folded yet: there, and at folded_seq, a run's state is one that was
  // visible to others.
  std::vector<std::uint64_t> commit_ends;
  std::vector<std::string> problems;  // gaps, lines that differ between history and frames, a chain that does not fit
};

// Reads the unfolded frames once, then any number of streams. Frames come before history, so that what a live writer
// moves from one to the other meanwhile is seen twice and not missed; comparing streams with tables needs a store that
// stands still (SqliteStore::open_view).
class StreamReader {
 public:
  // Which frames are compared with the history: those that are not folded yet, or all that are kept for followers of
  // the journal. A shared store has no frames beside its history.
  enum class Frames { unfolded, kept };
  explicit StreamReader(Store& store, Frames frames = Frames::unfolded);

  WholeStream read(StreamKey key);
  // The streams that have unfolded events, some of which no table knows yet.
  std::vector<StreamKey> unfolded() const;

 private:
  struct Part {
    std::uint64_t first_seq = 0;
    std::string lines;
    Position folded_frame = 0;  // the frame it is in, when that one is folded
  };

  Store& store_;
  Frames frames_;
  std::map<StreamKey, std::vector<Part>> parts_;
  bool has_all_frames_ = false;  // none was dropped yet, so every event is in one
};

inline WholeStream read_stream(Store& store, StreamKey key) { return StreamReader(store).read(key); }

}  // namespace pawl
