// What an engine committed, kept to be committed once more without one: the same frames, the same rows, the same
// grouping, straight into SQLite.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "bench/disk.h"
#include "bench/figures.h"
#include "measure.h"
#include "store/forwarding_store.h"
#include "store/sqlite/sqlite_store.h"

namespace pawl::bench {

using Record = std::vector<std::vector<Frame>>;

// Keeps what was committed, in the groups it was committed in.
class RecordingStore final : public ForwardingStore {
 public:
  RecordingStore(Store& store, Record& record) : ForwardingStore(store), record_(record) {}

  std::vector<Lost> commit(std::span<const Frame> frames) override {
    record_.emplace_back(frames.begin(), frames.end());
    return store_.commit(frames);
  }

 private:
  Record& record_;
};

// Seconds that it took.
inline double commit_again(const std::filesystem::path& parent, const Record& record) {
  Folder folder(parent, "raw");
  SqliteStore store({.folder = folder.path()});
  settle_disk();
  double begin = seconds_now();
  for (const auto& group : record) store.commit(group);
  return seconds_now() - begin;
}

}  // namespace pawl::bench
