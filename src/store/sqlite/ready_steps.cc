#include "store/sqlite/ready_steps.h"

#include "core/bytes.h"

namespace pawl::sqlite {

std::string write_ready(std::span<const ReadyStep> steps) {
  std::string bytes;
  ByteWriter out(bytes);
  for (const ReadyStep& step : steps) {
    out.u64(step.step);
    out.text(step.tool.text);
  }
  return bytes;
}

std::vector<ReadyStep> read_ready(std::string_view bytes, const ReadyStep& row) {
  std::vector<ReadyStep> steps;
  ByteReader in(bytes);
  while (!in.at_end()) {
    ReadyStep& step = steps.emplace_back(row);
    step.step = static_cast<StepIndex>(in.u64());
    step.tool.text = in.text();
  }
  if (in.bad()) throw StoreFailure("the ready steps of " + row.run.str() + " are damaged");
  return steps;
}

}  // namespace pawl::sqlite
