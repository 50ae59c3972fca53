#include "core/vocabulary.h"

#include <algorithm>

#include "core/invariant.h"

namespace pawl {
namespace {

constexpr std::size_t column(Vocabulary vocabulary) { return static_cast<std::size_t>(vocabulary); }

constexpr std::optional<std::size_t> find_projection(RunStatus status, RunPhase phase) {
  for (std::size_t i = 0; i < run_projections.size(); ++i)
    if (run_projections[i].stored == status && run_projections[i].phase == phase) return i;
  return std::nullopt;
}

constexpr bool every_status_has_a_plain_row() {
  for (std::size_t i = 0; i < enum_count<RunStatus>; ++i)
    if (!find_projection(static_cast<RunStatus>(i), RunPhase::plain)) return false;
  return true;
}

// So that a step's row can be found by its number.
constexpr bool steps_stand_in_order() {
  for (std::size_t i = 0; i < step_projections.size(); ++i)
    if (static_cast<std::size_t>(step_projections[i].stored) != i) return false;
  return step_projections.size() == enum_count<StepStatus>;
}

// What is stored and what contract v1 says are the same words, in every row.
constexpr bool contract_v1_is_what_is_stored() {
  for (const auto& row : run_projections)
    if (row.words[column(Vocabulary::contract_v1)] != to_string(row.stored)) return false;
  for (const auto& row : step_projections)
    if (row.words[column(Vocabulary::contract_v1)] != to_string(row.stored)) return false;
  return true;
}

static_assert(every_status_has_a_plain_row());
static_assert(steps_stand_in_order());
static_assert(contract_v1_is_what_is_stored());

const RunProjection& projection_of(RunStatus status, RunPhase phase) {
  auto row = find_projection(status, phase);
  invariant(row.has_value(), "a run is in a phase that its status does not have");
  return run_projections[*row];
}

}  // namespace

namespace {

RunPhase phase_in(const Run& run) {
  if (run.foreign && run.foreign->sub_state == SubState::error) return RunPhase::error;
  if (run.foreign) return run.foreign->sub_state == SubState::backing_off ? RunPhase::backing_off : RunPhase::plain;
  if (run.diagnostic) return RunPhase::error;
  auto any = [&](StepStatus status) {
    return std::any_of(run.steps.begin(), run.steps.end(), [&](const Step& step) { return step.status == status; });
  };
  if (run.status == RunStatus::waiting && run.provider == Provider::native && any(StepStatus::waiting_event) &&
      !any(StepStatus::waiting_approval) && !any(StepStatus::waiting_input))
    return RunPhase::awaiting_event;
  bool backing_off = any(StepStatus::failed_retryable) && !any(StepStatus::ready) && !any(StepStatus::running);
  return backing_off ? RunPhase::backing_off : RunPhase::plain;
}

}  // namespace

// Between two events of one decision a run may be in a phase that its status does not have: seen to back off, and still
// waiting.
RunPhase phase_of(const Run& run) {
  if (is_terminal(run.status)) return RunPhase::plain;
  RunPhase phase = phase_in(run);
  return find_projection(run.status, phase) ? phase : RunPhase::plain;
}

std::string_view run_word(Vocabulary vocabulary, RunStatus status, RunPhase phase) {
  return projection_of(status, phase).words[column(vocabulary)];
}

std::string_view run_word(Vocabulary vocabulary, const Run& run) {
  return run_word(vocabulary, run.status, phase_of(run));
}

std::string_view step_word(Vocabulary vocabulary, StepStatus status) {
  return step_projections[static_cast<std::size_t>(status)].words[column(vocabulary)];
}

std::string_view sub_state(RunStatus status, RunPhase phase) { return projection_of(status, phase).sub_state; }

std::string_view sub_state(const Run& run) { return sub_state(run.status, phase_of(run)); }

}  // namespace pawl
