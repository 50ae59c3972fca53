// Who executes the runs that a command stays with: an engine in this process (Session), or a server (ServedRun).
#pragma once

#include <cstdint>
#include <expected>
#include <mutex>
#include <string>
#include <vector>

#include "core/run.h"
#include "process/descriptor.h"

namespace pawl {

// Events of one run that have become durable.
struct RunNews {
  RunId run;
  std::uint64_t first_seq = 0;
  std::string lines;
};

// From the threads where it becomes known to the one that shows it.
class NewsBox {
 public:
  NewsBox();
  // Readable while there is something in it.
  int fd() const { return signal_.get(); }
  void ring();
  void add(RunNews news);
  std::vector<RunNews> take();

 private:
  Descriptor signal_;
  std::mutex mutex_;
  std::vector<RunNews> news_;
};

// What the person at the terminal said.
struct Decided {
  RunId run;
  ApprovalId approval;
  bool approve = false;
  std::string reason;
};
struct Answered {
  RunId run;
  StepId step;
  JsonText answer;
};

struct NotTaken {
  std::string message;
  bool is_away = false;  // nobody answered: the same can be said again later
};

class Carrier {
 public:
  virtual ~Carrier() = default;

  // From here on it works, or listens.
  virtual void start() = 0;
  // When it returns there is no more news.
  virtual void stop() = 0;

  virtual int news_fd() const = 0;
  // Throws a Stop when there will never be any again.
  virtual std::vector<RunNews> take_news() = 0;
  // What else a person should know by now: the server went away, it is back.
  virtual std::vector<std::string> take_notices() { return {}; }

  // When these return, what they caused is among the news.
  virtual std::expected<void, NotTaken> resolve(const Run& run, const Decided& decided) = 0;
  virtual std::expected<void, NotTaken> answer(const Run& run, const Answered& answered) = 0;
};

}  // namespace pawl
