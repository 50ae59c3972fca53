// Who carries runs elsewhere: what pawl asks of another engine, and what it hears.
//
// A provider starts runs, stops them, passes on what people decided, and is looked at. What its words mean is not said
// here but in core/provider.h, one table for all of them. Nothing here decides anything: what was heard goes to the
// engine as a command (carrier.h).
//
// start(), stop() and tell() are called by one thread at a time, and watch(), forget() and look() by one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/command.h"
#include "core/run.h"

namespace pawl::providers {

// How long a workflow that is published waits for the provider to say whether its target exists.
inline constexpr Duration target_answer_limit = std::chrono::seconds(5);

// A run as it is handed over.
struct Carried {
  TenantId tenant;
  RunId run;
  Target target;
  std::string key;  // the target's, for this run; empty when the workflow names none
  JsonText input;
  std::string id;    // over there; empty until it was accepted
  Instant ended_at;  // here; of one that is to be stopped
};

// What became of a request.
struct Outcome {
  enum class Kind {
    done,
    refused,     // asked again, it would be refused again
    unreachable  // nobody knows whether it was heard: to be asked again
  } kind = Kind::done;
  std::string text;  // done: the run's id over there; otherwise why
};

// What people decided on an approval that somebody over there waits for.
struct Decided {
  Carried run;
  Callback callback;
  ApprovalId approval;
  std::string gate;
  ApprovalStatus status = ApprovalStatus::approved;
  std::string by, reason;
};

// One run as it was seen.
struct Sighting {
  RunId run;
  bool is_known = true;  // false: it is not there
  std::string word;      // one of provider_states, or one that nobody knows
  Sign sign = Sign::none;
  bool is_partial = false;  // what it does just now could not be seen yet: the sign, and why it is tried again
  int retries = 0;
  Instant next_retry_at;
  std::string last_failure;
  JsonText output;      // of a success
  std::string failure;  // why it ended badly

  friend bool operator==(const Sighting&, const Sighting&) = default;
};

struct Look {
  std::vector<Sighting> seen;  // those that may have changed; of the others nothing is known to have
  std::string problem;         // why it could not look, or not everywhere
};

class Client {
 public:
  virtual ~Client() = default;
  virtual Provider provider() const = 0;

  // One outcome each, in their order. A run is started once, however often it is asked for: its id is the key.
  virtual std::vector<Outcome> start(const std::vector<Carried>& runs) = 0;
  // What has ended already, or never began, is stopped.
  virtual std::vector<Outcome> stop(const std::vector<Carried>& runs) = 0;
  // How long after its end here a run may still have to be stopped: for so long it is remembered by nobody but this
  // process, and who comes after it asks once more.
  virtual Duration stopping_takes() const { return {}; }
  virtual std::vector<Outcome> tell(const std::vector<Decided>& decided) = 0;

  // Why runs could never be started there, as far as it can be asked; nothing when they could, or it cannot be reached
  // or does not say. From any thread; takes seconds at most.
  virtual std::optional<std::string> find_target_problem(const Target& target) = 0;

  // From any thread: nothing more is waited for.
  virtual void give_up() = 0;

  virtual void watch(const Carried& run) = 0;
  virtual void forget(RunId run) = 0;
  // All that are watched, in as few requests as can be.
  virtual Look look() = 0;
};

// What a run becomes by what was seen of it. Of a word that provider_states does not have, nothing but that it runs.
// Not for one that is not there.
ObserveRun meaning_of(Provider provider, const Sighting& sighting, Instant now);

// Somebody else's text, as it is kept: not too long, and UTF-8 whatever it was.
std::string kept_text(std::string_view text, std::size_t bytes_max);

// The text of a refusal as the other engine gets it. That engine passes on nothing but this text when its run fails
// because of the refusal, so the text contains the approval's id, and approvals_named_in() reads it back.
std::string refusal_text(const Decided& decided);
std::vector<ApprovalId> approvals_named_in(std::string_view failure);
// The same as an object, for those who take one.
JsonText decision_object(const Decided& decided);

}  // namespace pawl::providers
