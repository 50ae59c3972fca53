#include "providers/carriers.h"

namespace pawl::providers {

std::set<Provider> CarriersOptions::providers() const {
  std::set<Provider> out;
  if (restate) out.insert(Provider::restate);
  if (stepfunctions) out.insert(Provider::stepfunctions);
  return out;
}

Carriers::Carriers(Runtime& runtime, Store& store, const Clock& clock, CarriersOptions options) {
  std::vector<std::unique_ptr<Client>> clients;
  if (options.restate) clients.push_back(std::make_unique<RestateClient>(*options.restate, clock));
  if (options.stepfunctions) clients.push_back(std::make_unique<StepFunctionsClient>(*options.stepfunctions));
  for (auto& client : clients) all_.push_back(std::make_unique<One>(std::move(client), runtime, store, clock, options));
}

std::optional<std::string> Carriers::find_target_problem(const Workflow& workflow) {
  for (auto& one : all_)
    if (one->client->provider() == workflow.provider) return one->client->find_target_problem(workflow.target);
  return std::nullopt;
}

std::vector<Following*> Carriers::followings() {
  std::vector<Following*> out;
  for (auto& one : all_) out.push_back(&one->following);
  return out;
}

void Carriers::start() {
  for (auto& one : all_) one->carrier.start();
}

void Carriers::stop() {
  for (auto& one : all_) one->carrier.stop();
}

}  // namespace pawl::providers
