// The commands of what people ask for, and of what waits for them: pawl task, pawl inbox.
#include <memory>

#include "cli/command_flags.h"
#include "cli/commands.h"
#include "core/task.h"

namespace pawl {
namespace {

DeclaredCommand declare_task(CLI::App& app) {
  auto options = std::make_shared<TaskOptions>();
  CLI::App* command = app.add_subcommand("task", "Ask for something to be done; answer, review, retry it");
  command->footer(
      "Examples:\n  pawl task\n"
      "  pawl task add \"Tidy the changelog\" \"Tidy CHANGELOG.md.\" --folder /srv/site --budget 2.50 --run\n"
      "  pawl task add \"Nightly report\" --workflow report --input '{\"day\": \"monday\"}' --depends-on 9g4qf1\n"
      "  pawl task show 9g4qf1\n"
      "  pawl task answer 9g4qf1 \"the second one\"\n"
      "  pawl task accept 9g4qf1\n"
      "  pawl task reject 9g4qf1 \"the dates are missing\"\n"
      "  pawl task change 9g4qf1 --timeout 30m --budget 5.00\n"
      "  pawl task list --state BLOCKED --tag docs\n"
      "  pawl task board\n"
      "  pawl task logs 9g4qf1 --follow\n"
      "docs/tasks.md tells the whole story.");
  add_action(*command, options->what,
             "list, add, show, run, cancel, accept, reject, resume, answer, change, delete, board or logs");
  command->add_option("TASK", options->task, "a task's id, or the end of it; for add its title");
  command->add_option("TEXT", options->text,
                      "for add and change the prompt, for answer the answer, for reject and cancel why; - is stdin");
  command->add_option("--workflow", options->workflow, "add: a published workflow carries it out")
      ->type_name("WORKFLOW");
  command->add_option("--input", options->input, "add: the workflow's input, as JSON")->type_name("JSON");
  command->add_option("--agent", options->agent, "add: claude, or command [claude]")
      ->type_name("WORD")
      ->check(CLI::IsMember({"claude", "command"}));
  command->add_option("--command", options->command, "add: the agent's program; once more for each argument")
      ->type_name("PROGRAM")
      ->allow_extra_args(false);
  command->add_option("--model", options->model, "add: the agent's model")->type_name("NAME");
  command->add_option("--folder", options->folder, "add: where the agent works")->type_name("DIR");
  command->add_flag("--no-mcp", options->no_mcp, "add: do not give the agent pawl's tools, which it has otherwise");
  command->add_flag("--mcp", options->mcp, "add: fail when the agent cannot be given pawl's tools");
  command->add_option("--sandbox", options->sandbox, "add: what the agent may reach, as JSON")->type_name("JSON");
  command->add_option("--permission-mode", options->permission_mode, "add: the agent claude's permission mode")
      ->type_name("MODE");
  command
      ->add_option("--allow", options->allowed_tools,
                   "add: a tool that the agent claude may use, such as 'Bash(git *)'; may be given several times")
      ->type_name("TOOL")
      ->allow_extra_args(false);
  command
      ->add_option("--disallow", options->disallowed_tools,
                   "add: a tool that the agent claude may not use; may be given several times")
      ->type_name("TOOL")
      ->allow_extra_args(false);
  command->add_flag("--project-settings", options->project_settings,
                    "add: settings in the folder of the agent claude count: they can run commands");
  command->add_option("--parent", options->parent, "add: as a subtask of this one; list: only its subtasks")
      ->type_name("TASK");
  command
      ->add_option("--depends-on", options->depends_on,
                   "add: begins when this one is COMPLETED; may be given several times")
      ->type_name("TASK")
      ->allow_extra_args(false);
  command->add_option("--budget", options->budget, "add, change: what it may cost, in USD; change: or none")
      ->type_name("USD");
  command->add_option("--timeout", options->timeout, "add, change: how long each run may take; change: or none")
      ->type_name("DURATION");
  command->add_option("--priority", options->priority, "add, change: low, normal or high [normal]")
      ->type_name("WORD")
      ->check(CLI::IsMember({"low", "normal", "high"}));
  command
      ->add_option("--tag", options->tags,
                   "add, change: may be given several times; change: or none; list: only those that have it")
      ->type_name("TAG")
      ->allow_extra_args(false);
  command->add_option("--workspace", options->workspace, "add: whose turn its runs take [default]")->type_name("NAME");
  command->add_flag("--run", options->run, "add: run it at once");
  command->add_option("--state", options->state, "list: only those in this state")->type_name("STATE");
  command->add_flag("--follow,-f", options->follow, "logs: go on while its agent does");
  command->add_flag("--subtasks", options->subtasks, "cancel, delete: with all its subtasks");
  command->add_option("--value", options->value, "answer: JSON, when the answer is no text")->type_name("JSON");
  add_place(*command, *options);
  return {command, [options] { return manage_tasks(*options); }};
}

DeclaredCommand declare_inbox(CLI::App& app) {
  auto options = std::make_shared<InboxOptions>();
  CLI::App* command = app.add_subcommand("inbox", "Show what waits for you: questions, reviews, approvals");
  command->footer(
      "Each line ends with the command that sees to it. Exit code 5 when something waits, 0 when nothing does.\n"
      "Examples:\n  pawl inbox\n  pawl inbox --json");
  add_place(*command, *options);
  return {command, [options] { return show_inbox(*options); }};
}

}  // namespace

std::vector<DeclaredCommand> declare_task_commands(CLI::App& app) { return {declare_task(app), declare_inbox(app)}; }

}  // namespace pawl
