// The verbs of what people ask for, and of what waits for them: pawl task, pawl inbox.
#include <memory>

#include "cli/verb_flags.h"
#include "cli/verbs.h"
#include "core/task.h"

namespace pawl {
namespace {

DeclaredVerb declare_task(CLI::App& app) {
  auto options = std::make_shared<TaskOptions>();
  CLI::App* verb = app.add_subcommand("task", "Ask for something to be done; answer, review, retry it");
  verb->footer(
      "Examples:\n  pawl task\n"
      "  pawl task add \"Tidy the changelog\" \"Tidy CHANGELOG.md.\" --folder /srv/site --budget 2.50 --run\n"
      "  pawl task add \"Nightly report\" --workflow report --input '{\"day\": \"monday\"}' --depends-on 9g4qf1\n"
      "  pawl task show 9g4qf1\n"
      "  pawl task answer 9g4qf1 \"the second one\"\n"
      "  pawl task accept 9g4qf1\n"
      "  pawl task reject 9g4qf1 \"the dates are missing\"\n"
      "  pawl task list --state BLOCKED --tag docs\n"
      "  pawl task board\n"
      "  pawl task logs 9g4qf1 --follow\n"
      "docs/tasks.md tells the whole story.");
  add_action(*verb, options->what,
             "list, add, show, run, cancel, accept, reject, resume, answer, delete, board or logs");
  verb->add_option("TASK", options->task, "a task's id, or the end of it; for add its title");
  verb->add_option("TEXT", options->text,
                   "for add the prompt, for answer the answer, for reject and cancel why; - is stdin");
  verb->add_option("--workflow", options->workflow, "add: a published workflow carries it out")->type_name("WORKFLOW");
  verb->add_option("--input", options->input, "add: the workflow's input, as JSON")->type_name("JSON");
  verb->add_option("--agent", options->agent, "add: claude, or command [claude]")
      ->type_name("WORD")
      ->check(CLI::IsMember({"claude", "command"}));
  verb->add_option("--command", options->command, "add: the agent's program; once more for each argument")
      ->type_name("COMMAND")
      ->allow_extra_args(false);
  verb->add_option("--model", options->model, "add: the agent's model")->type_name("NAME");
  verb->add_option("--folder", options->folder, "add: where the agent works")->type_name("DIR");
  verb->add_flag("--mcp", options->mcp, "add: give the agent pawl's tools");
  verb->add_option("--sandbox", options->sandbox, "add: what the agent may reach, as JSON")->type_name("JSON");
  verb->add_option("--parent", options->parent, "add: as a subtask of this one; list: only its subtasks")
      ->type_name("TASK");
  verb->add_option("--depends-on", options->depends_on,
                   "add: begins when this one is COMPLETED; may be given several times")
      ->type_name("TASK")
      ->allow_extra_args(false);
  verb->add_option("--budget", options->budget, "add: what it may cost, in USD")->type_name("USD");
  verb->add_option("--timeout", options->timeout, "add: how long each run may take")->type_name("DURATION");
  verb->add_option("--priority", options->priority, "add: low, normal or high [normal]")
      ->type_name("WORD")
      ->check(CLI::IsMember({"low", "normal", "high"}));
  verb->add_option("--tag", options->tags, "add: may be given several times; list: only those that have it")
      ->type_name("TAG")
      ->allow_extra_args(false);
  verb->add_option("--workspace", options->workspace, "add: whose turn its runs take [default]")->type_name("NAME");
  verb->add_flag("--run", options->run, "add: run it at once");
  verb->add_option("--state", options->state, "list: only those in this state")->type_name("STATE");
  verb->add_flag("--follow,-f", options->follow, "logs: go on while its agent does");
  verb->add_option("--value", options->value, "answer: JSON, when the answer is no text")->type_name("JSON");
  add_place(*verb, *options);
  return {verb, [options] { return manage_tasks(*options); }};
}

DeclaredVerb declare_inbox(CLI::App& app) {
  auto options = std::make_shared<InboxOptions>();
  CLI::App* verb = app.add_subcommand("inbox", "Show what waits for you: questions, reviews, approvals");
  verb->footer(
      "Each line ends with the command that sees to it. Exit code 5 when something waits, 0 when nothing does.\n"
      "Examples:\n  pawl inbox\n  pawl inbox --json");
  add_place(*verb, *options);
  return {verb, [options] { return show_inbox(*options); }};
}

}  // namespace

std::vector<DeclaredVerb> declare_task_verbs(CLI::App& app) { return {declare_task(app), declare_inbox(app)}; }

}  // namespace pawl
