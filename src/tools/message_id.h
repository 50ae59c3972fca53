// The id of a JSON-RPC message that is too long to be kept: found while the message goes by, so that even such a
// request can be answered.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace pawl {

class MessageIdFinder {
 public:
  MessageIdFinder();
  MessageIdFinder(MessageIdFinder&&) noexcept;
  MessageIdFinder& operator=(MessageIdFinder&&) noexcept;
  ~MessageIdFinder();

  // The next bytes of the message.
  void feed(std::string_view bytes);
  // As JSON, a string or a number; "null" when there is none, or nobody can say.
  std::string id() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pawl
