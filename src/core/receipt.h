// The receipt of one side effect: what was done or attempted, who allowed it, what came back, how it can be undone.
// Receipts answer for repeats: what is known to have happened is never done again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/action.h"
#include "core/receipt_lifecycle.h"
#include "core/time.h"

namespace pawl {

struct Receipt {
  ReceiptId id;
  StepIndex step = 0;
  ReceiptStatus status = ReceiptStatus::intended;
  std::shared_ptr<const Proposal> proposal;
  PolicyReason policy_reason;          // of the allow
  std::optional<ApprovalId> approval;  // when a person allowed it
  Actor proposed_by;                   // of the latest call; empty when it was recorded before this was kept
  bool by_program = false;             // an agent proposed it, not the tool or worker that holds the lease
  std::uint64_t token = 0;             // of the attempt that may call, or last could
  int calls = 1;                       // how often it was, or may have been, called under its key
  Instant intended_at;
  Instant resolved_at;       // when its outcome, or the doubt, was recorded
  Actor resolved_by;         // the worker or agent that recorded the outcome, or the person who resolved the doubt
  bool is_reported = false;  // the outcome is the word of who was allowed to call, not of a person
  std::string error_code;    // of a failure
  std::string message;
  JsonText response;                 // what the other side said; empty until it did
  std::shared_ptr<const Undo> undo;  // what would undo it; null when nothing would
  std::optional<ReceiptId> reversed_by;

  friend bool operator==(const Receipt& a, const Receipt& b);
};

// Whether it keeps its idempotency key from being used for another effect: one that failed or was undone does not
// stand.
constexpr bool holds_key(ReceiptStatus status) {
  return status != ReceiptStatus::failed && status != ReceiptStatus::reversed;
}

}  // namespace pawl
