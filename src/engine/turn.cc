#include "engine/turn.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace pawl {
namespace {

void say_all(std::vector<std::move_only_function<void()>> waiting) {
  for (auto& say : waiting) say();
}

}  // namespace

void Again::add(Again more) {
  std::ranges::move(more.requests, std::back_inserter(requests));
  std::ranges::move(more.polls, std::back_inserter(polls));
  std::ranges::move(more.offers, std::back_inserter(offers));
}

Again Turn::release(const IsLost& is_lost) {
  Again again;
  auto lost = [&](Incarnation basis) { return is_lost && basis != 0 && is_lost(basis); };
  for (Answer& answer : answers) {
    if (answer.again && (!answer.say || lost(answer.basis[0]) || lost(answer.basis[1]))) {
      if (answer.round && !answer.was_open) ++answer.round->open;
      again.requests.push_back({std::move(answer.round), std::move(answer.again)});
    } else if (answer.ends_round && answer.round && answer.round->open > 0) {
      answer.round->waiting.push_back(std::move(answer.say));
    } else {
      if (answer.say) answer.say();
      if (answer.was_open && answer.round && --answer.round->open == 0)
        say_all(std::exchange(answer.round->waiting, {}));
    }
  }
  for (Revoke& revoke : revokes)
    if (!lost(revoke.basis)) revoke.sink->revoke(revoke.run, revoke.step, revoke.token);
  for (Grant& grant : grants) {
    std::map<TenantId, int> unheld;
    std::erase_if(grant.leases, [&](const Lease& lease) {
      const bool is_lost_lease = lost(lease.basis);
      if (is_lost_lease) ++unheld[lease.tenant];
      return is_lost_lease;
    });
    if (grant.poll && grant.leases.empty() && is_lost)
      again.polls.push_back(std::move(*grant.poll));
    else if (grant.poll)
      grant.poll->poll.reply(std::move(grant.leases));
    else if (!grant.leases.empty())
      grant.sink->grant(std::move(grant.leases));
    if (grant.sink)
      for (const auto& [tenant, slots] : unheld) again.offers.push_back({grant.worker, slots, tenant});
  }
  return again;
}

}  // namespace pawl
