#include "providers/running_list.h"

#include <algorithm>
#include <utility>

#include "providers/stepfunctions_answers.h"

namespace pawl::providers::stepfunctions {
namespace {

constexpr std::size_t pages_max = 200;

}  // namespace

RunningList::Read RunningList::take(Page& page, Response response, Response& problem) {
  const ListedText text = cut_token(response.body);
  const std::size_t hash = text.hash(), bytes = text.before.size() + text.after.size();
  if (response.is_ok() && text.is_plain() && page.hash == hash && page.bytes == bytes) {
    page.next = text.token;
    return Read::done;
  }
  auto found = response.is_ok() ? read_executions_page(response.body) : std::nullopt;
  if (!found) {
    const bool is_refused = !response.is_ok() && !may_be_asked_again(response);
    problem = std::move(response);
    return is_refused ? Read::refused : Read::failed;
  }
  page.hash = hash;
  page.bytes = bytes;
  page.next = std::move(found->next);
  page.executions = std::move(found->executions);
  has_changed_ = true;
  return Read::done;
}

// Whether nothing can be between the two: the next one begins where this one ends, or before.
bool RunningList::are_joined(const Page& page, const Page& next) {
  if (page.executions.empty()) return false;
  const std::string& last = page.executions.back();
  return last == next.after || std::ranges::find(next.executions, last) != next.executions.end();
}

// One more page, from where this one ends.
RunningList::Read RunningList::read_on(const Ask& ask, std::size_t behind, Response& problem) {
  if (pages_.size() >= pages_max) {
    pages_.clear();
    return Read::endless;
  }
  const Page& before = pages_[behind];
  Page page{.token = before.next,
            .after = before.executions.empty() ? std::string() : before.executions.back(),
            .next = {},
            .executions = {}};
  const Read read = take(page, std::move(ask({page.token}).front()), problem);
  if (read != Read::done) return read;
  pages_.insert(pages_.begin() + static_cast<std::ptrdiff_t>(behind) + 1, std::move(page));
  has_changed_ = true;
  return read;
}

// From each page to the one that is farthest and still joined to it.
void RunningList::drop_what_others_cover() {
  for (std::size_t at = 0; at + 2 < pages_.size(); ++at)
    while (at + 2 < pages_.size() && are_joined(pages_[at], pages_[at + 2]))
      pages_.erase(pages_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
}

RunningList::Read RunningList::read(const Ask& ask, Response& problem) {
  if (pages_.empty()) pages_.emplace_back();
  std::vector<std::string> tokens;
  for (const Page& page : pages_) tokens.push_back(page.token);
  auto responses = ask(tokens);
  for (std::size_t i = pages_.size(); i-- > 0;) {
    // Tokens do not live for ever; the gap is read on from the page before.
    const bool is_stale = i > 0 && error_of(responses[i]) == "InvalidToken";
    if (is_stale)
      pages_.erase(pages_.begin() + static_cast<std::ptrdiff_t>(i));  // what it listed is listed by the one instead
    else if (Read read = take(pages_[i], std::move(responses[i]), problem); read != Read::done)
      return read;
  }
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if (pages_[i].next.empty()) {
      has_changed_ = has_changed_ || pages_.size() > i + 1;
      pages_.resize(i + 1);
      break;
    }
    if (i + 1 < pages_.size() && are_joined(pages_[i], pages_[i + 1])) continue;
    if (Read read = read_on(ask, i, problem); read != Read::done) return read;
  }
  drop_what_others_cover();
  return Read::done;
}

std::unordered_set<std::string_view> RunningList::executions() const {
  std::unordered_set<std::string_view> out;
  for (const Page& page : pages_) out.insert(page.executions.begin(), page.executions.end());
  return out;
}

}  // namespace pawl::providers::stepfunctions
