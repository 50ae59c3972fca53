// The executions of one state machine that run, as Step Functions lists them: newest first, so many a page, each page
// with a token where the next one begins.
//
// Pages are asked for all at once, each where it began the last time. What ended since makes a page reach into the next
// one, which harms nothing; what began since leaves a gap behind the first one, which is read on from where that ends.
// So a look takes as long as one page, or two, however many there are.
//
// A list is a hint: an execution that is not in it is asked for by itself before anything is said of it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "providers/transport.h"

namespace pawl::providers::stepfunctions {

class RunningList {
 public:
  enum class Read {
    done,
    failed,   // `problem` is the answer that was none
    refused,  // it would be refused again
    endless   // there are more pages than anybody wants to read
  };
  // Answers to a page for each of these tokens, in their order; an empty one is the first page.
  using Ask = std::function<std::vector<Response>(const std::vector<std::string>& tokens)>;

  // Brings it up to date. What was read before a failure is kept.
  Read read(const Ask& ask, Response& problem);

  // Since this was last asked.
  bool has_changed() { return std::exchange(has_changed_, false); }
  std::unordered_set<std::string_view> executions() const;
  std::size_t pages() const { return pages_.size(); }

 private:
  struct Page {
    std::string token;  // where it begins,
    std::string after;  // behind this execution, when that was asked for
    std::size_t hash = 0, bytes = 0;
    std::string next;
    std::vector<std::string> executions;
  };

  Read take(Page& page, Response response, Response& problem);
  Read read_on(const Ask& ask, std::size_t behind, Response& problem);
  static bool are_joined(const Page& page, const Page& next);
  void drop_what_others_cover();

  std::vector<Page> pages_;
  bool has_changed_ = true;
};

}  // namespace pawl::providers::stepfunctions
