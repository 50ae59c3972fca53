#include "engine/undoing.h"

#include <memory>
#include <utility>

#include "crypto/sha256.h"

namespace pawl {
namespace {

struct Undoing {
  Runtime& runtime;
  UndoRequest request;
  Reply<UndoAnswer> reply;
  UndoPlan plan;
  WorkspaceName workspace;
  std::vector<Actor> other_requesters;
};
using UndoingPtr = std::shared_ptr<Undoing>;

// A run that has ended undoes nothing more. The next of the same plan is told apart by the number in its trigger, so
// that asking twice at once makes one run.
void start(UndoingPtr undoing, int version, int number = 1) {
  undoing->runtime.post([undoing, version, number](Engine& engine) {
    const std::string of_run = undoing->request.run.str();
    NewRun run{.tenant = undoing->request.tenant,
               .workflow = undoing->plan.workflow,
               .version = version,
               .workspace = undoing->workspace,
               .by = undoing->request.by,
               .trigger_type = "undo",
               .trigger_ref = number == 1 ? of_run : of_run + "#" + std::to_string(number)};
    run.is_internal = true;
    run.other_requesters = undoing->other_requesters;
    engine.request(std::move(run), [undoing, version, number](const std::expected<RunAnswer, Refusal>& made) {
      if (!made) return undoing->reply(std::unexpected(made.error()));
      if (!made->is_new && is_terminal(made->status)) return start(undoing, version, number + 1);
      undoing->reply(UndoAnswer{*made, std::move(undoing->plan)});
    });
  });
}

void publish(UndoingPtr undoing) {
  undoing->runtime.post([undoing](Engine& engine) {
    engine.request(PublishWorkflow{undoing->request.tenant, undoing->plan.source, undoing->plan.workflow.text,
                                   Actor{"engine"}, undoing->plan.workflow},
                   [undoing](std::expected<WorkflowRef, Refusal> published) {
                     if (!published) return undoing->reply(std::unexpected(published.error()));
                     start(undoing, published->version);
                   });
  });
}

}  // namespace

void undo(Runtime& runtime, UndoRequest request, Reply<UndoAnswer> reply) {
  auto undoing = std::make_shared<Undoing>(runtime, std::move(request), std::move(reply));
  runtime.post([undoing](Engine& engine) {
    // Folded first: when the undo has happened, the receipt is found again by the tables.
    engine.request(FlushRows{undoing->request.tenant, undoing->request.run});
    const ToolCatalog* tools = &engine.tools();
    engine.request(InspectRun{undoing->request.tenant, undoing->request.run},
                   [undoing, tools](std::expected<std::shared_ptr<const Run>, Refusal> run) {
                     if (!run) return undoing->reply(std::unexpected(run.error()));
                     auto plan = plan_undo(**run, undoing->request.only, *tools, sha256);
                     if (!plan) return undoing->reply(std::unexpected(plan.error()));
                     // Nobody waves through alone the undo of what they asked for.
                     auto others = other_requesters_of(undoing->request.by, requesters_of(**run));
                     if (!others) return undoing->reply(std::unexpected(others.error()));
                     undoing->other_requesters = std::move(*others);
                     undoing->plan = std::move(*plan);
                     undoing->workspace = (*run)->workspace;
                     publish(undoing);
                   });
  });
}

}  // namespace pawl
