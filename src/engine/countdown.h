// Waiting for the engine's answers to many requests at once. For followers.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace pawl {

// Counts replies. One that is dropped, because the engine has ended, is a failure.
class Countdown {
 public:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t open = 0;
    std::string failure;
  };
  class Token {
   public:
    explicit Token(std::shared_ptr<State> state) : state_(std::move(state)) {
      std::lock_guard lock(state_->mutex);
      ++state_->open;
    }
    Token(Token&&) noexcept = default;
    Token& operator=(Token&&) = delete;
    ~Token() {
      if (state_) end("pawl stopped before it could answer");
    }
    // `change` is done before anybody who waits goes on.
    template <class Change>
    void end(const std::string& failure, Change change) {
      {
        std::lock_guard lock(state_->mutex);
        change();
        --state_->open;
        if (!failure.empty()) state_->failure = failure;
      }
      state_->changed.notify_all();
      state_.reset();
    }
    void end(const std::string& failure) {
      end(failure, [] {});
    }

   private:
    std::shared_ptr<State> state_;
  };

  Token token() { return Token(state_); }
  void wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->open == 0; });
    if (!state_->failure.empty()) throw std::runtime_error(state_->failure);
  }

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace pawl
