// Requests that wait for a run to end: POST /runs?wait= and GET /runs/{id}?wait=.
//
// Nobody polls: the feed says which streams of the journal have grown, on this server or on another one, and only runs
// that somebody waits for and that moved are looked at. A thread of its own answers those whose time is up.
#pragma once

#include <chrono>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "api/feed.h"
#include "engine/runtime.h"

namespace pawl::api {

struct Call;

class RunWaits {
 public:
  // All of them outlive it. While `ready` is false, the server is stopping and nobody waits any more.
  RunWaits(Runtime& runtime, Feed& feed, const std::atomic<bool>& ready);
  ~RunWaits();

  // Room for one request that waits, until it is let go. Null when too many wait already, of all tenants or of this
  // one: a tenant can have as many as are free.
  using Place = std::shared_ptr<void>;
  Place reserve(TenantId tenant);

  struct Wait {
    TenantId tenant;
    RunId run;
    std::chrono::steady_clock::time_point until;
    Place place;
    // Whether anybody still wants the answer.
    std::function<bool()> is_wanted;
    // The run as it ended, or as it is when the time is up. Called once, on the engine's writer thread: it must return
    // at once. Not called when the answer is not wanted any more, or the engine stops first.
    std::move_only_function<void(std::expected<std::shared_ptr<const Run>, Refusal>)> done;
  };
  void add(Wait wait);

 private:
  class State;
  struct Taken;
  std::shared_ptr<State> state_;
  std::shared_ptr<Taken> taken_;
};

// What ?wait= asks for. Nothing without it, or with 0s.
struct EndWait {
  std::chrono::steady_clock::time_point until;
  RunWaits::Place place;
};
// Throws a Problem when it is not a duration, is too long, or too many requests wait.
std::optional<EndWait> read_end_wait(const std::shared_ptr<Call>& call);
// Calls `answer` on a background thread with the run as it ended, or as it is when the time is up.
using AnswerWithRun = std::move_only_function<void(Call& call, const Run& run)>;
void wait_for_end(std::shared_ptr<Call> call, RunId run, EndWait wait, AnswerWithRun answer);

}  // namespace pawl::api
