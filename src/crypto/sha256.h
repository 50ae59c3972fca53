// SHA-256 through OpenSSL, shaped as core wants it.
#pragma once

#include <memory>
#include <string_view>

#include "core/chain.h"

namespace pawl {

// Over a followed by b. Thread-safe.
Hash sha256(std::string_view a, std::string_view b = {});

// Over bytes that come piece by piece.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  void add(std::string_view bytes);
  Hash finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pawl
