// A connection's receive buffer.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace pawl::http {

// Bytes that came and are not yet understood.
class Input {
 public:
  std::string_view bytes() const { return {memory_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  void consume(std::size_t bytes) {
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }
  // Empty when there is no room left within `bytes_max`.
  std::span<char> room(std::size_t bytes_max) {
    if (begin_ > 0) {
      std::memmove(memory_.get(), memory_.get() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
    }
    if (end_ == size_ && size_ < bytes_max) resize(std::min(bytes_max, std::max(2 * size_, bytes_first)));
    return {memory_.get() + end_, size_ - end_};
  }
  void commit(std::size_t bytes) { end_ += bytes; }
  void shrink() {
    if (empty() && size_ > bytes_kept) resize(bytes_first);
  }

 private:
  static constexpr std::size_t bytes_first = 4 << 10;
  static constexpr std::size_t bytes_kept = 16 << 10;  // what an idle connection may hold on to

  void resize(std::size_t size) {
    auto larger = std::make_unique_for_overwrite<char[]>(size);
    if (end_ > 0) std::memcpy(larger.get(), memory_.get(), end_);
    memory_ = std::move(larger);
    size_ = size;
  }

  std::unique_ptr<char[]> memory_;
  std::size_t size_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace pawl::http
