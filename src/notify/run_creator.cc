#include "notify/run_creator.h"

#include <stdexcept>

namespace pawl::notify {

// One run that is being made. When its reply is dropped, because the engine has ended, that counts as a failure.
class RunCreator::Token {
 public:
  explicit Token(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {
    std::lock_guard lock(pending_->mutex);
    ++pending_->open;
  }
  Token(Token&& other) noexcept = default;
  Token& operator=(Token&&) = delete;
  ~Token() {
    if (pending_) end("pawl stopped before it could answer");
  }
  void end(const std::string& failure) {
    {
      std::lock_guard lock(pending_->mutex);
      --pending_->open;
      if (!failure.empty()) pending_->failure = failure;
    }
    pending_->changed.notify_all();
    pending_.reset();
  }

 private:
  std::shared_ptr<Pending> pending_;
};

void RunCreator::publish(TenantId tenant, const WorkflowName& name, const std::string& source) {
  if (!published_.insert({tenant, name.text}).second) return;
  auto done = context_.runtime->ask(PublishWorkflow{tenant, source, name.text, engine_actor, name});
  if (done) return;
  published_.erase({tenant, name.text});
  throw std::runtime_error(name.text + " cannot be published: " + done.error().message);
}

void RunCreator::make(NewRun run) {
  context_.runtime->post([run = std::move(run), token = Token(pending_)](Engine& engine) mutable {
    engine.request(std::move(run), [token = std::move(token)](std::expected<RunAnswer, Refusal> made) mutable {
      token.end(made ? "" : made.error().message);
    });
  });
}

RunId RunCreator::make_now(NewRun run) {
  auto made = context_.runtime->ask(run);
  if (!made) throw std::runtime_error(made.error().message);
  return made->run;
}

void RunCreator::settle() {
  auto pending = std::exchange(pending_, std::make_shared<Pending>());
  std::unique_lock lock(pending->mutex);
  pending->changed.wait(lock, [&] { return pending->open == 0; });
  if (!pending->failure.empty()) {
    published_.clear();  // what is not known any more is published again
    throw std::runtime_error(pending->failure);
  }
}

}  // namespace pawl::notify
