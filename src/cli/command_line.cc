#include <fmt/format.h>

#include <algorithm>

#include "cli/arguments.h"
#include "cli/completion.h"
#include "cli/declared_commands.h"
#include "cli/describe.h"
#include "cli/text.h"
#include "cli/version.h"

namespace pawl {
namespace {

constexpr std::string_view exit_codes_topic = "exit-codes";
constexpr std::size_t explanation_columns = 66;

std::string exit_code_help() {
  std::string out = "Exit codes:\n";
  for (const ExitMeaning& each : exit_meanings)
    out += fmt::format("  {:>3}  {}\n", static_cast<int>(each.code), each.means);
  return out;
}

// Explanations in lines that can be read, and a value that may be left out as people write it.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    std::size_t usual_value = name.find('{');
    return usual_value == name.npos ? name : name.substr(0, usual_value) + "[=N]";
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return fmt::format("{}", fmt::join(wrap(CLI::Formatter::make_option_desc(option), explanation_columns), "\n"));
  }
};

std::vector<CLI::App*> all_commands(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  auto near = nearest(word, known);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

std::vector<std::string> names_of(CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : all_commands(app)) names.push_back(command->get_name());
  return names;
}

NoCommand mistake(CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  std::string message = error.what();
  auto parsed = app.get_subcommands();
  std::string help = parsed.empty() ? "pawl --help" : fmt::format("pawl {} --help", parsed[0]->get_name());
  if (parsed.empty() && argc > 1 && argv[1][0] != '-') {
    message = fmt::format("there is no command {}{}", printable(argv[1]), suggestion(argv[1], names_of(app)));
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) && !parsed.empty()) {
    auto extras = parsed[0]->remaining();
    std::string word = extras.empty() ? "" : extras[0];
    std::vector<std::string> known;
    for (const CLI::Option* option : parsed[0]->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    bool is_flag = word.starts_with("-");
    message = fmt::format("{} {} is not known to pawl {}{}", is_flag ? "the flag" : "the argument", printable(word),
                          parsed[0]->get_name(), is_flag ? suggestion(word, known) : "");
  }
  return {fmt::format("pawl: {}\n(see {})\n", message, help), exit_usage};
}

NoCommand explain(CLI::App& app, const std::string& about) {
  if (about == exit_codes_topic) return {exit_code_help(), exit_success};
  for (const CLI::App* command : all_commands(app))
    if (command->get_name() == about) return {command->help("pawl"), exit_success};
  auto known = names_of(app);
  known.emplace_back(exit_codes_topic);
  return {
      fmt::format("pawl: there is no command {}{}\n(see pawl --help)\n", printable(about), suggestion(about, known)),
      exit_usage};
}

CommandOutline outline_of(const CLI::App& app) {
  CommandOutline out;
  out.name = app.get_name();
  out.help = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (!option->nonpositional()) {
      out.positionals.push_back(option->get_name());
      out.last_repeats = option->get_items_expected_max() > 1;
      continue;
    }
    FlagOutline flag{.names = {}, .placeholder = {}, .help = option->get_description()};
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    if (option->get_items_expected_max() > 0) flag.placeholder = option->get_type_name();
    out.flags.push_back(std::move(flag));
  }
  return out;
}

}  // namespace

std::expected<ParsedLine, NoCommand> parse_arguments(int argc, char** argv) {
  CLI::App app("pawl runs workflows of steps durably: killed at any moment, it goes on where it was.", "pawl");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", [] { return version_text(); });
  app.require_subcommand(0, 1);
  app.footer("Begin with:\n  pawl run examples/first-run.yaml\n\n" + exit_code_help());
  auto commands = declare_commands(app);
  std::string about;
  CLI::App* help = app.add_subcommand("help", "Explain pawl, one command, or the exit codes");
  help->add_option("COMMAND", about, "the command, or exit-codes");
  help->footer("Examples:\n  pawl help run\n  pawl help exit-codes");

  if (argc > 1 && argv[1] == completing_command) {
    std::vector<CommandOutline> outline;
    for (const CLI::App* command : all_commands(app)) outline.push_back(outline_of(*command));
    return ParsedLine{[outline = std::move(outline), words = std::vector<std::string>(argv + 2, argv + argc)] {
      return complete(outline, words);
    }};
  }
  std::string overview = app.help();  // once a command is parsed, this gives the command's own
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    auto parsed = app.get_subcommands();
    return std::unexpected(NoCommand{parsed.empty() ? overview : parsed[0]->help("pawl"), exit_success});
  } catch (const CLI::CallForVersion& version) {
    return std::unexpected(NoCommand{version.what(), exit_success});
  } catch (const CLI::ParseError& error) {
    return std::unexpected(mistake(app, error, argc, argv));
  }
  for (const DeclaredCommand& command : commands)
    if (command.app->parsed()) return ParsedLine{command.execute};
  if (!about.empty()) return std::unexpected(explain(app, about));
  return std::unexpected(NoCommand{overview, help->parsed() ? exit_success : exit_usage});
}

}  // namespace pawl
