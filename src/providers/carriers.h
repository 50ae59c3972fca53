// All providers that a server was told how to reach, with a carrier each.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "providers/carrier.h"
#include "providers/restate.h"
#include "providers/stepfunctions.h"

namespace pawl::providers {

struct CarriersOptions {
  std::optional<RestateOptions> restate;
  std::optional<StepFunctionsOptions> stepfunctions;
  CarrierOptions carrier;
  FollowingOptions following;

  std::set<Provider> providers() const;
};

class Carriers {
 public:
  // All of them outlive it.
  Carriers(Runtime& runtime, Store& store, const Clock& clock, CarriersOptions options);

  // Why a run of this workflow could never be started, as its provider says; nothing for one without a provider here.
  // From any thread; takes seconds at most.
  std::optional<std::string> find_target_problem(const Workflow& workflow);

  // To be started before anything is committed, and told of every frame.
  std::vector<Following*> followings();
  void start();
  // Before the followings end.
  void stop();

 private:
  struct One {
    One(std::unique_ptr<Client> made, Runtime& runtime, Store& store, const Clock& clock,
        const CarriersOptions& options)
        : client(std::move(made)),
          carrier(runtime, store, clock, *client, options.carrier),
          following(store, carrier, options.following) {}

    std::unique_ptr<Client> client;
    Carrier carrier;
    Following following;
  };
  std::vector<std::unique_ptr<One>> all_;
};

}  // namespace pawl::providers
