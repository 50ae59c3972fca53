// Tasks follow what their runs, subtasks and dependencies do.
//
// Whatever the journal says of a task, or of a run that carries one, makes that task be looked at
// (Engine::follow_task), then its parent and those that depend on it. Looking changes nothing when there is nothing to
// follow, so it does not matter that an event may come twice, or that several of them are seen at once. Nobody looks
// when nothing happened.
//
// Who waits for whom is kept in memory: it is found again in the tables when this server begins, or takes over.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "engine/follower.h"
#include "engine/runtime.h"

namespace pawl {

class TaskFollower final : public Follower {
 public:
  // Both outlive it, and are there before it sees anything.
  TaskFollower(Runtime& runtime, Store& store) : runtime_(runtime), store_(store) {}

  std::string name() const override { return "tasks"; }
  bool wants(const Tenant& tenant) const override;
  void see(const JournalEvent& event) override;
  void settle() override;
  void took_over() override;
  void missed(Position first, Position last) override;

 private:
  using Key = std::pair<TenantId, TaskId>;

  std::optional<TaskId> task_of(const JournalEvent& event);
  void remember(RunId run, std::optional<TaskId> task);
  // Every task of the tenant that is not over.
  std::vector<Key> find_live(TenantId tenant);
  // Looks at all of them, in this order, until each is settled, and learns what they wait for.
  std::vector<std::pair<Key, TaskView>> follow(std::vector<Key> tasks);
  void follow_all();
  void add_subtasks();
  void note_waiting(const Key& task, const TaskView& view);
  void forget_waiting(const Key& task);

  Runtime& runtime_;
  Store& store_;
  std::set<Key> touched_;                      // seen since they were last looked at
  std::vector<std::pair<Key, TaskId>> added_;  // parents and their new subtasks
  std::set<TenantId> known_;                   // whose waiting tasks are known
  std::set<TenantId> seen_;
  // Queued tasks, and those they depend on that are not completed.
  struct Waiting {
    std::set<TaskId> waits_for;
    TaskPriority priority = TaskPriority::normal;
  };
  std::map<Key, Waiting> waiting_;
  std::map<Key, std::set<TaskId>> awaited_by_;  // the same the other way round
  // Of runs seen lately: whether they carry a task. Only the first event says so.
  std::unordered_map<RunId, std::optional<TaskId>> carried_;
  std::deque<RunId> oldest_;
};

}  // namespace pawl
