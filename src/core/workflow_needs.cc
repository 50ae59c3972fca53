#include "core/workflow_needs.h"

#include <algorithm>

#include "core/characters.h"
#include "core/expression.h"

namespace pawl {
namespace {

struct Need {
  StepIndex step = 0;
  Place place;
  bool is_written = true;  // false: the step before, because there is no `needs`
};

using NeedLists = std::vector<std::vector<Need>>;

constexpr std::size_t printed_steps_max = 20;

std::vector<Need> read_list(SourceReader& reader, const SourceNode& list, StepIndex self, const StepNames& names) {
  std::vector<Need> out;
  std::bitset<steps_max> seen;
  for (const auto& item : list.items) {
    if (reader.is_full()) break;
    const auto id = reader.text(item, "needs", "a list of step ids");
    if (!id) continue;
    const auto found = names.index.find(*id);
    if (found == names.index.end()) {
      reader.refuse(item.place, "there is no step " + quote(*id) + suggest(*id, names.in_order));
    } else if (found->second == self) {
      reader.refuse(item.place, "a step cannot need itself; remove " + quote(*id) + " from its `needs`");
    } else if (seen.test(found->second)) {
      reader.refuse(item.place, "step " + quote(*id) + " is already in this list; remove one of the two");
    } else {
      seen.set(found->second);
      out.push_back({found->second, item.place});
    }
  }
  return out;
}

// Walks the needs depth first. A step that is met again before its own walk has ended closes a cycle.
class CycleFinder {
 public:
  CycleFinder(SourceReader& reader, const NeedLists& needs, const StepNames& names)
      : reader_(reader), needs_(needs), names_(names), marks_(needs.size(), Mark::unseen) {}

  // The steps, each after all it needs, unless there were cycles.
  std::vector<StepIndex> order() {
    for (std::size_t i = 0; i < needs_.size(); ++i) visit(static_cast<StepIndex>(i));
    return std::move(order_);
  }

 private:
  enum class Mark { unseen, open, in_reported_cycle, done };

  void visit(StepIndex step) {
    if (marks_[step] != Mark::unseen) return;
    marks_[step] = Mark::open;
    for (const auto& need : needs_[step]) {
      path_.push_back(&need);
      if (marks_[need.step] == Mark::open) report(need.step);
      visit(need.step);
      path_.pop_back();
    }
    marks_[step] = Mark::done;
    order_.push_back(step);
  }

  // The end of path_ leads from `first` back to it.
  void report(StepIndex first) {
    auto begin = path_.end() - 1;
    while (begin != path_.begin() && (*(begin - 1))->step != first) --begin;
    const std::vector<const Need*> cycle(begin, path_.end());

    std::string text = names(first);
    const Need* written = nullptr;
    std::string unwritten;
    StepIndex from = first;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const Need& need = *cycle[i];
      if (i < printed_steps_max) text += " -> " + names(need.step);
      if (i == printed_steps_max) text += " -> ...";
      if (!need.is_written)
        unwritten = "; " + quote(names(from)) + " needs the step before it, because it has no `needs` of its own";
      else if (!written ||
               std::pair(need.place.line, need.place.column) < std::pair(written->place.line, written->place.column))
        written = &need;
      marks_[from] = Mark::in_reported_cycle;
      from = need.step;
    }
    // Without `needs` a step waits for an earlier one, so no cycle is made of these alone.
    reader_.refuse(written->place, "these steps wait for each other for ever: " + text + unwritten);
  }

  std::string names(StepIndex step) const { return std::string(names_.in_order[step]); }

  SourceReader& reader_;
  const NeedLists& needs_;
  const StepNames& names_;
  std::vector<Mark> marks_;
  std::vector<const Need*> path_;
  std::vector<StepIndex> order_;
};

// Why step `reading` cannot read the output of `id`; empty when it can.
std::string refuse_reference(const std::string& id, StepIndex reading, const StepNames& names, const Needs& needs) {
  const auto found = names.index.find(id);
  if (found == names.index.end()) return "there is no step " + quote(id) + suggest(id, names.in_order);
  if (found->second == reading) return "a step cannot read its own output";
  if (needs.sound && !needs.finished[reading].test(found->second))
    return "step " + quote(id) + " may not have finished when this step starts; add it to this step's `needs`";
  return {};
}

}  // namespace

Needs read_needs(SourceReader& reader, const std::vector<const SourceNode*>& steps, const StepNames& names) {
  const std::size_t errors_before = reader.error_count();
  NeedLists lists(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto self = static_cast<StepIndex>(i);
    if (const auto* entry = find_entry(*steps[i], "needs")) {
      if (reader.is_list(entry->value, "needs")) lists[i] = read_list(reader, entry->value, self, names);
    } else if (i > 0) {
      lists[i].push_back({static_cast<StepIndex>(i - 1), {}, false});
    }
  }
  const auto order = CycleFinder(reader, lists, names).order();

  Needs out;
  out.sound = reader.error_count() == errors_before;
  out.direct.resize(steps.size());
  out.finished.resize(steps.size());
  for (const StepIndex step : order) {
    for (const auto& need : lists[step]) {
      out.direct[step].push_back(need.step);
      out.finished[step] |= out.finished[need.step];
      out.finished[step].set(need.step);
    }
    std::sort(out.direct[step].begin(), out.direct[step].end());
  }
  return out;
}

void check_expressions(SourceReader& reader, const SourceNode& node, StepIndex reading, const StepNames& names,
                       const Needs& needs) {
  for (const auto& item : node.items) check_expressions(reader, item, reading, names, needs);
  for (const auto& entry : node.entries) {
    if (is_template(entry.key)) reader.refuse(entry.place, "a key cannot hold an expression; only a value can");
    check_expressions(reader, entry.value, reading, names, needs);
  }
  const auto found = find_expressions(node.scalar);
  if (!found) {
    reader.refuse(place_inside(node, found.error().offset), found.error().reason);
    return;
  }
  for (const auto& [expression, offset] : *found) {
    if (reader.is_full()) return;
    if (expression.root != Expression::Root::step_output) continue;
    std::string reason = refuse_reference(expression.step, reading, names, needs);
    if (!reason.empty()) reader.refuse(place_inside(node, offset), std::move(reason));
  }
}

}  // namespace pawl
