// Lines that come and stay: for pipes, logs and terminals that cannot move their cursor.
#include <fmt/format.h>

#include <map>

#include "cli/view.h"

namespace pawl {
namespace {

constexpr std::size_t columns_for_text = 100;  // nobody's window: wrapped for reading

class PlainView final : public View {
 public:
  explicit PlainView(const Look& look) : look_(look) {}

  void begin(const Run& run) override {
    if (!since_) since_ = run.seq > 0 ? Instant{} : run.created_at;
    ++runs_;
    for (StepIndex i = 0; i < run.steps.size(); ++i)
      subject_columns_ = std::max(subject_columns_, run.definition(i).id.text.size());
    if (runs_ == 2) put("several runs: each line begins with the last six characters of its run's id\n");
    if (run.seq > 0)
      put(fmt::format("{}  {} v{}  {} at seq {}\n", run.id.str(), run.workflow->name.text, run.workflow->version,
                      to_string(run.status), run.seq));
  }

  void on_event(const Run& after, const RunEvent& event, std::string_view) override {
    if (!since_ || since_->ms == 0) since_ = event.at;
    EventWords words = describe_event(after, event);
    Line line;
    if (runs_ > 1) line.add(after.id.str().substr(after.id.str().size() - 6) + "  ");
    auto offset = (event.at - *since_).count();
    line.add_right(Ink::dim, fmt::format("+{}.{:03}s", offset / 1000, offset % 1000), 9).add("  ");
    std::size_t column = line.columns();
    line.add(words.subject).to_column(column += subject_columns_ + 2);
    line.add(words.ink, words.what).to_column(column += 19).add(words.more);
    if (std::holds_alternative<RunCreated>(event.payload)) line.add(", " + after.id.str());
    put(line.print(look_) + "\n");
  }

  void notice(std::string_view text) override { put(fmt::format("{}\n", text)); }

  void refresh(Instant, const Prompt* prompt) override {
    if (!prompt) {
      asked_.clear();
      return;
    }
    std::string text;
    for (const Line& line : prompt->lines) text += line.print(look_) + "\n";
    text += prompt->input.print(look_) + " ";
    if (text != asked_) put(text);
    asked_ = text;
  }

  void end(const Ending& ending, Instant now) override {
    auto lines = ending.runs.size() == 1 ? closing_lines(*ending.runs[0], ending, columns_for_text, look_, now)
                                         : closing_lines(ending, look_);
    put("\n");
    for (const Line& line : lines) put(line.print(look_) + "\n");
  }

 private:
  Look look_;
  std::optional<Instant> since_;
  std::size_t runs_ = 0;
  std::size_t subject_columns_ = 3;
  std::string asked_;
};

}  // namespace

std::unique_ptr<View> make_plain_view(const Look& look) { return std::make_unique<PlainView>(look); }

}  // namespace pawl
