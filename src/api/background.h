// Threads beside the server's own, for what may take a moment: reading tables, writing long answers.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pawl::api {

class Background {
 public:
  using Work = std::move_only_function<void()>;

  explicit Background(int threads);
  ~Background();  // what has not begun is dropped

  void post(Work work);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> ready_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pawl::api
