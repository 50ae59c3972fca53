// The steps of a run that wait for a worker, as they stand in its row.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace pawl::sqlite {

// (step, tool)*; the rest of a ReadyStep is in other columns of the row.
std::string write_ready(std::span<const ReadyStep> steps);
// Each is `row` with its own step and tool. Throws StoreFailure when the bytes are damaged.
std::vector<ReadyStep> read_ready(std::string_view bytes, const ReadyStep& row);

}  // namespace pawl::sqlite
