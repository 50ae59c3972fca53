// How other threads reach a connection, which belongs to one thread and may end at any time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "http/message.h"

namespace pawl::http {

class Connection;
class Line;

// Lines that want attention. One visit attends to all that have rung by then: answers that become durable together cost
// one wake-up.
class Bell {
 public:
  explicit Bell(std::function<void()> call) : call_(std::move(call)) {}

  void ring(std::shared_ptr<Line> line) {
    std::lock_guard lock(mutex_);
    if (rung_.empty()) call_();
    rung_.push_back(std::move(line));
  }
  std::vector<std::shared_ptr<Line>> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(rung_, {});
  }

 private:
  const std::function<void()> call_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Line>> rung_;
};

// The part of a connection that other threads know, and that may outlive it. One request is open on it at a time, so it
// serves all of them in turn; the number tells a late answer from the one that is waited for.
class Line : public std::enable_shared_from_this<Line> {
 public:
  Line(Bell& bell, Connection& connection) : bell_(bell), connection_(&connection) {}

  // Any thread. An answer of none: the responder was dropped.
  void answer(std::uint32_t number, std::optional<Response> answer) {
    std::lock_guard lock(mutex_);
    if (!connection_ || number != number_ || answered_) return;
    answered_ = true;
    answer_ = std::move(answer);
    if (waiting_) ring_locked();
  }
  void ring() {
    std::lock_guard lock(mutex_);
    if (connection_) ring_locked();
  }

  // The loop's thread.
  std::uint32_t open_request() {
    std::lock_guard lock(mutex_);
    answered_ = waiting_ = false;
    return ++number_;
  }
  // False: not yet, the answer will ring.
  bool take_answer(std::optional<Response>& into) {
    std::lock_guard lock(mutex_);
    waiting_ = !answered_;
    if (answered_) into = std::move(answer_);
    return answered_;
  }
  Connection* attend() {
    std::lock_guard lock(mutex_);
    rung_ = false;
    return connection_;
  }
  void cut() {
    std::lock_guard lock(mutex_);
    connection_ = nullptr;
  }

 private:
  void ring_locked() {
    if (!std::exchange(rung_, true)) bell_.ring(shared_from_this());
  }

  Bell& bell_;  // gone once connection_ is null
  std::mutex mutex_;
  Connection* connection_;
  std::optional<Response> answer_;
  std::uint32_t number_ = 0;
  bool answered_ = false;
  bool waiting_ = false;
  bool rung_ = false;
};

// What a Responder holds.
class Answer {
 public:
  Answer(std::shared_ptr<Line> line, std::uint32_t number) : line_(std::move(line)), number_(number) {}
  Answer(Answer&& other) noexcept = default;
  Answer& operator=(Answer&&) = delete;
  ~Answer() {
    if (line_) line_->answer(number_, std::nullopt);
  }
  void operator()(Response response) {
    if (auto line = std::move(line_)) line->answer(number_, std::move(response));
  }

 private:
  std::shared_ptr<Line> line_;
  std::uint32_t number_;
};

}  // namespace pawl::http
