#include "api/run_reader.h"

#include "core/decide.h"
#include "core/snapshot.h"
#include "engine/workflows.h"

namespace pawl::api {

const Workflow& RunReader::workflow_of(const RunRow& row) {
  auto& known = workflows_[{row.workflow, row.version}];
  if (known) return *known;
  auto published = store_.find_workflow(tenant_, row.workflow, row.version);
  if (!published) throw StoreFailure("there is no version " + std::to_string(row.version) + " of " + row.workflow.text);
  auto workflow = compile_workflow(published->source, row.workflow.text, nullptr);
  if (!workflow) throw StoreFailure(workflow.error());
  workflow->version = row.version;
  known = std::make_unique<const Workflow>(std::move(*workflow));
  return *known;
}

const Run* RunReader::find(RunId id) {
  if (last_ && last_->id == id) return &*last_;
  auto row = store_.load(tenant_, id);
  if (!row) return nullptr;
  const Workflow& workflow = workflow_of(*row);
  last_ = read_snapshot(row->snapshot, workflow);
  if (last_) return &*last_;
  auto folded = fold_lines(tenant_, id, workflow, store_.history(StreamKey::of(tenant_, id)).lines);
  if (!folded) throw StoreFailure(folded.error());
  last_ = std::move(*folded);
  return &*last_;
}

}  // namespace pawl::api
