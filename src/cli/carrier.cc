#include "cli/carrier.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace pawl {

NewsBox::NewsBox() : signal_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void NewsBox::ring() {
  std::uint64_t one = 1;
  (void)!::write(signal_.get(), &one, sizeof one);
}

void NewsBox::add(RunNews news) {
  {
    std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
  }
  ring();
}

std::vector<RunNews> NewsBox::take() {
  std::uint64_t count = 0;
  (void)!::read(signal_.get(), &count, sizeof count);
  std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

}  // namespace pawl
