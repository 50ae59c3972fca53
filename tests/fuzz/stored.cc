// What the store keeps as bytes. The first one says what the others are: s a run's snapshot, t a tenant's state, f a
// frame of the journal. Damaged bytes are refused; what is taken is written and read as the same.
#include "core/invariants.h"
#include "core/run_object.h"
#include "core/snapshot.h"
#include "fuzz.h"
#include "some_workflow.h"
#include "store/store.h"
#include "store/tenant_state.h"

namespace pawl::fuzz {
namespace {

void read_as_snapshot(std::string_view bytes) {
  const auto run = read_snapshot(bytes, some_workflow());
  if (!run) return;
  const std::string written = write_snapshot(*run);
  const auto again = read_snapshot(written, some_workflow());
  check(again && same_fold(*again, *run), "a run that was read is written as it is");
  check_equal(write_snapshot(*again), written, "a run has one snapshot");
  check(run->steps.empty() || run->steps.size() == some_workflow().steps.size(), "a run has its workflow's steps");
  next_due(*run);
  if (check_run(*run).empty()) canonical(run_object(*run, Vocabulary::contract_v1));
}

void read_as_tenant(std::string_view bytes) {
  const auto tenant = read_tenant({}, bytes);
  if (!tenant) return;
  const auto again = read_tenant({}, write_tenant(*tenant));
  check(again && *again == *tenant, "a tenant that was read is written as it is");
}

void read_as_frame(std::string_view bytes) {
  std::string again;
  try {
    for_each_part(bytes, [&](const StreamPart& part) { append_part(again, part); });
  } catch (const StoreFailure& failure) {
    check(*failure.what() != '\0', "a failure says why");
    check(bytes.starts_with(again), "what is read before the damage is what was written");
    return;
  }
  check_equal(again, bytes, "a frame has one spelling");
}

}  // namespace

FUZZ_TARGET(stored) {
  if (input.empty()) return;
  const char kind = input.front();
  input.remove_prefix(1);
  if (kind == 's') read_as_snapshot(input);
  if (kind == 't') read_as_tenant(input);
  if (kind == 'f') read_as_frame(input);
}

}  // namespace pawl::fuzz
