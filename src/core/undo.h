// Undoing what a run did: its receipts backwards, each undo a step of a new run. An undo is an action like any other,
// so it passes the same gate; its idempotency key is "undo:<receipt>", so that no effect is undone twice.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "core/chain.h"
#include "core/decide.h"
#include "core/tool_spec.h"

namespace pawl {

struct UndoPlan {
  struct Left {
    ReceiptId receipt;
    std::string why;
  };
  WorkflowName workflow;  // named by what it does: the same undo is the same workflow
  std::string source;
  std::vector<ReceiptId> undoing;  // in the order of the steps: the latest effect first
  std::vector<Left> left;          // effects that stay
};

// What an undo of the whole run leaves, the latest effect first.
std::vector<UndoPlan::Left> left_by_undo(const Run& run, const ToolCatalog& tools);

// All that can be undone, or `only` one effect. The step that undoes an effect has the tool, time-out and lease of the
// step that had it, at least its risk and that of the effect, and is given the fields of its `undo`. A tool of this
// server is only given what it said itself.
std::expected<UndoPlan, Refusal> plan_undo(const Run& run, std::optional<ReceiptId> only, const ToolCatalog& tools,
                                           Sha256 sha256);

}  // namespace pawl
