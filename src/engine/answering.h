// How the engine's parts answer: every reply waits for its turn to be durable.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "core/planted.h"
#include "engine/engine.h"

namespace pawl {

inline std::unexpected<Refusal> no_such(std::string_view what) {
  return std::unexpected(Refusal{RefusalCode::not_found, "there is no such " + std::string(what)});
}

inline std::unexpected<Refusal> lease_over() { return std::unexpected(lease_lost_refusal()); }

template <class T>
void Engine::answer_with(Reply<T>& reply, std::expected<T, Refusal> answer) {
  if (!reply && !deciding_again_) return;
  if (planted(Bug::answer_before_commit)) return reply(std::move(answer));
  turn_.answers.push_back({.say =
                               [reply = std::move(reply), answer = std::move(answer)]() mutable {
                                 if (reply) reply(std::move(answer));
                               },
                           .round = round_,
                           .was_open = deciding_again_});
}

template <class T, class MakeAgain>
void Engine::answer_on(std::array<Incarnation, 2> basis, Reply<T>& reply, std::expected<T, Refusal> answer,
                       MakeAgain make_again) {
  if (basis == std::array<Incarnation, 2>{}) return answer_with<T>(reply, std::move(answer));
  // One of the two will be called: whichever it is has the reply.
  auto shared = std::make_shared<Reply<T>>(std::move(reply));
  turn_.answers.push_back(
      {.say =
           [shared, answer = std::move(answer)]() mutable {
             if (*shared) (*shared)(std::move(answer));
           },
       .basis = basis,
       .again = [this, shared, again = make_again()]() mutable { again(*this, std::move(*shared)); },
       .round = round_,
       .was_open = deciding_again_});
}

template <class T, class Decide>
void Engine::when_durable(Reply<T>& reply, Decide decide) {
  turn_.answers.push_back(
      {.say = {},
       .again = [this, decide, reply = std::move(reply)]() mutable { decide(*this, std::move(reply)); },
       .round = round_,
       .was_open = deciding_again_});
}

}  // namespace pawl
