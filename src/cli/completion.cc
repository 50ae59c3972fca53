#include "cli/completion.h"

#include <fmt/format.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <span>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/recorded_run.h"
#include "cli/remote.h"
#include "cli/run_rows.h"
#include "cli/text.h"
#include "core/event_names.h"
#include "core/task.h"
#include "core/tenant.h"
#include "store/sqlite/sqlite_store.h"

namespace pawl {
namespace {

// The person who pressed Tab waits no longer than this, whatever the folder or the server does.
constexpr auto time_max = std::chrono::milliseconds(900);
constexpr std::size_t offered_runs_max = 50;

void stop_in_time() {
  std::signal(SIGALRM, [](int) { std::_Exit(exit_success); });
  itimerval timer{};
  timer.it_value.tv_usec = std::chrono::microseconds(time_max).count();
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

class Completion {
 public:
  Completion(const std::vector<CommandOutline>& commands, std::vector<std::string> words)
      : commands_(commands), words_(std::move(words)) {
    if (words_.empty()) words_.emplace_back();
    current_ = words_.back();
    words_.pop_back();
  }

  void complete() {
    std::size_t i = 0;
    while (i < words_.size() && words_[i].starts_with("-")) ++i;
    if (i == words_.size()) return offer_commands();
    auto command = std::ranges::find(commands_, words_[i], &CommandOutline::name);
    if (command == commands_.end()) return;
    command_ = &*command;
    for (++i; i < words_.size(); ++i) take(words_[i]);
    offer_here();
  }

 private:
  const FlagOutline* find_flag(std::string_view name) const {
    for (const FlagOutline& flag : command_->flags)
      if (std::ranges::find(flag.names, name) != flag.names.end()) return &flag;
    return nullptr;
  }

  void take(const std::string& word) {
    if (word == "=") return;  // bash makes three words of --flag=value
    if (awaiting_) {
      values_[awaiting_->names[0]] = word;
      awaiting_ = nullptr;
    } else if (only_positionals_ || !word.starts_with("-")) {
      positional_values_.push_back(word);
    } else if (word == "--") {
      only_positionals_ = true;
    } else {
      std::size_t equals = word.find('=');
      const FlagOutline* flag = find_flag(word.substr(0, equals));
      if (!flag) return;
      given_.insert(flag);
      if (equals != word.npos)
        values_[flag->names[0]] = word.substr(equals + 1);
      else if (!flag->placeholder.empty())
        awaiting_ = flag;
    }
  }

  void offer_here() {
    if (current_ == "=") current_.clear();
    std::size_t equals = current_.find('=');
    if (awaiting_) {
      offer_values(awaiting_->placeholder);
    } else if (!only_positionals_ && current_.starts_with("--") && equals != current_.npos) {
      const FlagOutline* flag = find_flag(current_.substr(0, equals));
      before_ = current_.substr(0, equals + 1);
      if (flag) offer_values(flag->placeholder);
    } else if (!only_positionals_ && current_.starts_with("-")) {
      for (const FlagOutline& flag : command_->flags)
        if (!given_.contains(&flag)) offer(flag.names[0], flag.help);
    } else if (positional_values_.size() < command_->positionals.size()) {
      offer_values(command_->positionals[positional_values_.size()]);
    } else if (command_->last_repeats) {
      offer_values(command_->positionals.back());
    }
  }

  void offer(std::string_view candidate, std::string_view help = {}) const {
    std::string whole = before_ + std::string(candidate);
    if (whole.starts_with(current_)) fmt::print("{}\t{}\n", whole, help.substr(0, help.find('\n')));
  }
  void offer_commands() const {
    if (current_.starts_with("-")) {
      offer("--help", "explain pawl");
      offer("--version", "print the version");
    }
    for (const CommandOutline& command : commands_) offer(command.name, command.help);
  }
  template <class Enum>
  void offer_words() const {
    for (std::string_view word : enum_names<Enum>) offer(word);
  }

  // What each placeholder stands for.
  void offer_values(std::string_view placeholder) const {
    struct Row {
      std::string_view placeholder;
      void (Completion::*offer)() const;
    };
    static constexpr std::array rows{
        Row{"FILE", &Completion::offer_files},
        Row{"PROGRAM", &Completion::offer_files},
        Row{"DIR", &Completion::offer_folders},
        Row{"RUN", &Completion::offer_runs},
        Row{"WORKFLOW", &Completion::offer_workflows},
        Row{"WHAT", &Completion::offer_graphs},
        Row{"KEY", &Completion::offer_keys},
        Row{"ACTION", &Completion::offer_actions},
        Row{"TASK", &Completion::offer_tasks},
        Row{"RECEIPT", &Completion::offer_receipts},
        Row{"PERSON", &Completion::offer_people},
        Row{"WEBHOOK", &Completion::offer_webhooks},
        Row{"TENANT", &Completion::offer_tenants},
        Row{"DELIVERY", &Completion::offer_deliveries},
        Row{"KIND", &Completion::offer_kinds},
        Row{"STATE", &Completion::offer_words<TaskState>},
        Row{"STATUS", &Completion::offer_words<RunStatus>},
        Row{"SUB_STATE", &Completion::offer_words<SubState>},
        Row{"PROVIDER", &Completion::offer_words<Provider>},
        Row{"VOCABULARY", &Completion::offer_words<Vocabulary>},
        Row{"FORMAT", &Completion::offer_words<DiagramFormat>},
        Row{"ROLE", &Completion::offer_words<Role>},
        Row{"SHELL", &Completion::offer_words<Shell>},
        Row{"STREAM", &Completion::offer_words<LogStream>},
        Row{"COMMAND", &Completion::offer_topics},
    };
    auto row = std::ranges::find(rows, placeholder, &Row::placeholder);
    if (row != rows.end()) (this->*row->offer)();
  }

  void offer_files() const { fmt::print(":files\n"); }
  void offer_folders() const { fmt::print(":folders\n"); }
  void offer_topics() const {
    offer_commands();
    offer("exit-codes", "what each exit code means");
  }
  void offer_actions() const {
    if (command_->name == "task") return offer_words<TaskAction>();
    if (command_->name == "policy") return offer_words<PolicyAction>();
    if (command_->name == "people") return offer_words<PeopleAction>();
    if (command_->name == "webhooks") return offer_words<WebhooksAction>();
    if (command_->name == "slack") return offer_words<SlackAction>();
    for (std::string_view word : {"list", "create", "revoke", "rotate"}) offer(word);
  }
  void offer_graphs() const {
    offer_words<LifecycleName>();
    offer_files();
    offer_workflows();
  }

  std::string value(const std::string& flag) const {
    auto found = values_.find(flag);
    return found == values_.end() ? "" : found->second;
  }
  // What follows asks a folder or a server, for a moment: what is offered so far shall not wait for it.
  std::filesystem::path folder() const {
    std::fflush(stdout);
    return data_folder(value("--data"));
  }

  // Those that the command can do something with.
  bool is_fitting(RunStatus status) const {
    if (command_->name == "approve" || command_->name == "reject") return status == RunStatus::waiting;
    if (command_->name == "cancel" || command_->name == "resume") return !is_terminal(status);
    if (command_->name == "retry") return is_terminal(status) && status != RunStatus::success;
    return true;
  }

  void offer_runs() const {
    RunRows rows(value("--server"), folder());
    rows.answer_within(time_max);
    for (const ListedRun& row : rows.newest({}, offered_runs_max))
      if (is_fitting(row.status)) offer(row.id.str(), fmt::format("{} {}", to_string(row.status), row.workflow.text));
  }

  void offer_tasks() const {
    auto remote = Remote::find(value("--server"), folder());
    if (!remote) return;
    remote->answer_within(time_max);
    Json page = remote->get(fmt::format("/tasks?limit={}", std::min<std::size_t>(offered_runs_max, 200)));
    for (const Json& task : page.at("items").as_array())
      offer(task.at("id").as_string(), fmt::format("{} {}", std::string_view(task.at("state").as_string()),
                                                   printable(task.at("title").as_string())));
  }

  // Of what a server lists there: each item by this member, with these others beside it.
  void offer_listed(const std::string& path, std::string_view name,
                    std::initializer_list<std::string_view> beside) const {
    auto remote = Remote::find(value("--server"), folder());
    if (!remote) return;
    remote->answer_within(time_max);
    Json page = remote->get(path);
    for (const Json& item : page.at("items").as_array()) {
      std::string help;
      for (std::string_view key : beside)
        if (const Json& text = item.at(key); text.is_string())
          (help += help.empty() ? "" : " ") += printable(text.get_string());
      offer(item.at(name).as_string(), help);
    }
  }
  void offer_people() const { offer_listed("/people", "name", {}); }
  void offer_webhooks() const { offer_listed("/webhooks", "name", {"url"}); }
  void offer_tenants() const { offer_listed("/tenants", "name", {}); }
  void offer_deliveries() const {
    if (positional_values_.size() > 1)
      offer_listed("/webhooks/" + percent_encode(positional_values_[1]) + "/deliveries", "id", {"status", "type"});
  }
  // An effect is undone once, and only when it happened.
  void offer_receipts() const {
    const bool undoes = command_->name == "undo";
    if (Remote::find(value("--server"), folder()))
      return offer_listed(undoes ? "/receipts?status=succeeded" : "/receipts", "id", {"status", "idempotency_key"});
    auto store = open_to_read(folder());
    ReceiptFilter filter{.limit = offered_runs_max};
    if (undoes) filter.status = ReceiptStatus::succeeded;
    for (const Tenant& tenant : store->tenants())
      for (const ReceiptRow& row : store->list_receipts(tenant.id, filter))
        offer(row.id.str(), fmt::format("{} {}", to_string(row.status), printable(row.key)));
  }
  void offer_kinds() const {
    for (std::string_view all : {"*", "run.*", "step.*", "approval.*", "receipt.*", "action.*", "task.*"}) offer(all);
    for (auto names :
         {std::span<const std::string_view>(run_event_names), std::span<const std::string_view>(step_event_names),
          std::span<const std::string_view>(approval_event_names),
          std::span<const std::string_view>(receipt_event_names), std::span<const std::string_view>(task_event_names)})
      for (std::string_view name : names) offer(name);
  }

  void offer_workflows() const {
    Json list = list_workflows(value("--server"), folder());
    for (const Json& item : list.at("items").as_array()) offer(item.at("name").as_string(), "a published workflow");
  }

  void offer_keys() const {
    auto remote = Remote::find(value("--server"), folder());
    if (!remote) return;
    Json keys = remote->get_all("/keys");
    for (const Json& key : keys.at("items").as_array())
      offer(key.at("id").as_string(), fmt::format("{} {}", std::string_view(key.at("role").as_string()),
                                                  std::string_view(key.at("name").as_string())));
  }

  const std::vector<CommandOutline>& commands_;
  std::vector<std::string> words_;
  std::string current_;
  const CommandOutline* command_ = nullptr;
  std::string before_;  // of the value, in the same word
  const FlagOutline* awaiting_ = nullptr;
  std::set<const FlagOutline*> given_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> positional_values_;
  bool only_positionals_ = false;
};

}  // namespace

ExitCode complete(const std::vector<CommandOutline>& commands, std::vector<std::string> words) try {
  stop_in_time();
  Completion(commands, std::move(words)).complete();
  std::fflush(stdout);
  return exit_success;
} catch (const std::exception&) {
  return exit_success;
}

}  // namespace pawl
