// A workflow: an immutable version of a definition that validated. Everything a run needs to know about its steps.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "core/id.h"
#include "core/json.h"
#include "core/money.h"
#include "core/names.h"
#include "core/provider.h"
#include "core/retry.h"
#include "core/source.h"
#include "core/time.h"
#include "core/tool_spec.h"

namespace pawl {

class TenantRules;

using StepIndex = std::uint16_t;

inline constexpr std::size_t steps_max = 1000;
inline constexpr std::size_t description_chars_max = 2000;
inline constexpr Duration default_lease = std::chrono::seconds(30);
inline constexpr Duration default_step_timeout = std::chrono::minutes(10);
inline constexpr Duration default_approval_expiry = std::chrono::hours(24);

enum class Tier { low, med, high };
template <>
inline constexpr std::array enum_names<Tier>{std::string_view("low"), std::string_view("med"),
                                             std::string_view("high")};

// People and groups who may decide, as authors write them: "ada", "group:finance".
using Approvers = std::vector<std::string>;
inline constexpr std::string_view group_prefix = "group:";

// What an approval demands. two_person is a quorum of two distinct people, neither of them a requester.
struct ApprovalTerms {
  Tier tier = Tier::low;
  bool two_person = false;
  int quorum = 1;
  Duration expires = default_approval_expiry;
  std::string prompt;   // what the approver is asked; may be empty
  Approvers approvers;  // empty: everybody who may approve at all
  // After so long without a decision: those who were asked are reminded; `escalate_to` are asked as well, and may
  // decide from then on.
  std::optional<Duration> remind;
  std::optional<Duration> escalate;
  Approvers escalate_to;

  friend bool operator==(const ApprovalTerms&, const ApprovalTerms&) = default;
};

// How long a step waits, by the engine's own timer: no worker, slot or attempt is involved.
struct WaitTerms {
  enum class Kind { span, moment } kind = Kind::span;
  std::string text;  // a duration or an RFC 3339 time; may hold ${{ }}

  friend bool operator==(const WaitTerms&, const WaitTerms&) = default;
};

// Absent = no limit.
struct Caps {
  std::optional<int> max_concurrency;     // steps running at once
  std::optional<int> max_runs_per_min;    // starts in any 60 seconds
  std::optional<int> max_writes_per_run;  // steps of one run that may write

  friend bool operator==(const Caps&, const Caps&) = default;
};

// What bundles hold of inputs, outputs and the like: their digest and size, or all of it.
enum class EvidenceDetail { metadata, full };
template <>
inline constexpr std::array enum_names<EvidenceDetail>{std::string_view("metadata"), std::string_view("full")};

// Of the workflows with which pawl undoes what runs did (core/undo.h).
inline constexpr std::string_view undo_workflow_prefix = "pawl.undo.";

struct StepDefinition {
  StepId id;
  ToolName tool;
  std::string description;         // for people; may be empty
  std::vector<StepIndex> needs;    // resolved: explicit `needs`, or the step before
  Json with;                       // a map; values may hold ${{ }}
  bool with_is_constant = true;    // nothing in it needs rendering,
  JsonText with_text = "{}";       // so this text is the input
  bool keeps_expressions = false;  // which only the worker can replace: the input is still a template
  RetryPolicy retry;
  Duration timeout = default_step_timeout;  // of one attempt
  Duration lease = default_lease;
  Tier risk = Tier::low;
  std::string idempotency_key;        // a template; empty = "<run id>:<step id>"
  std::optional<ReceiptId> reverses;  // the effect that this step undoes (core/undo.h)
  ApprovalTerms approval;             // for the tool `approval`
  std::optional<WaitTerms> wait;      // for the tools `wait` and `sleep`

  bool is_gate() const { return tool == approval_tool; }
  // Neither is ever given to a worker. (Journals of older versions have workers that executed `sleep`.)
  bool is_wait() const { return wait.has_value(); }
};

struct Workflow {
  WorkflowName name;
  int version = 0;          // 0 until published
  std::string digest;       // sha256 of the source text, hex
  std::string source;       // what the author wrote
  std::string description;  // for people; may be empty
  std::optional<Duration> timeout;
  std::optional<Money> budget;
  Caps caps;
  EvidenceDetail evidence = EvidenceDetail::metadata;
  // Of a workflow that another engine carries: where, and which approvals may be asked for there. Those stand among the
  // steps, as the gates that they are; a run of it has none of its own.
  Provider provider = Provider::native;
  Target target;
  std::vector<StepDefinition> steps;

  const StepDefinition& operator[](StepIndex index) const { return steps[index]; }
  std::optional<StepIndex> find(const StepId& id) const;
};

// Every error in the document, first one first, at most source_errors_max of them.
inline constexpr std::size_t source_errors_max = 20;
// Without `tools`, tool names and the keys of their `with` are taken as they are. `rules` are those of the tenant that
// publishes it; null: nobody does, or pawl itself.
std::expected<Workflow, std::vector<SourceError>> read_workflow(const SourceNode& document, const ToolCatalog* tools,
                                                                const TenantRules* rules = nullptr);

}  // namespace pawl
