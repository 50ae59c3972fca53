// A run's state as bytes, so that a run that left memory comes back without folding its whole stream. A snapshot is
// a cache of the journal: one in an older format is thrown away and folded anew, never migrated.
//
//   snapshot := version(1 byte) field*      integers are varints (signed ones zigzag), texts are length + bytes
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/run.h"

namespace pawl {

std::string write_snapshot(const Run& run);

// `workflow` is the version the run was created with. Nothing when the format is not this one's, or damaged.
std::optional<Run> read_snapshot(std::string_view bytes, const Workflow& workflow);

// What lists show of a run beside its row, without knowing its workflow. Nothing when the bytes are no run's.
struct RunSummary {
  Provider provider = Provider::native;
  std::string provider_state;
  int retries = 0;
  std::optional<bool> retryable;  // of the diagnostic, when it has one
  Instant finished_at;            // 0 before its end
};
RunSummary summary_of(const Run& run);
std::optional<RunSummary> read_summary(std::string_view bytes);

}  // namespace pawl
