// How progress is shown: in location on a terminal, as plain lines, or as JSON. follow() drives one of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/describe.h"
#include "cli/folder.h"
#include "cli/terminal.h"
#include "core/event.h"
#include "core/run.h"

namespace pawl {

// What a person is asked right now.
struct Prompt {
  // Changes when something else is asked, or the same after another vote; time alone does not change it.
  std::string subject;
  std::vector<Line> lines;
  Line input;  // with what has been typed so far
};

enum class Outcome { ended, waiting, interrupted };

struct Ending {
  Outcome outcome = Outcome::ended;
  std::vector<const Run*> runs;
  Location location;
};

class View {
 public:
  virtual ~View() = default;

  // From here on `run` is followed; what is already known of it may be shown. Stays valid until end().
  virtual void begin(const Run& run) = 0;
  // `line` is the event as the journal has it, `after` the run with the event folded in.
  virtual void on_event(const Run& after, const RunEvent& event, std::string_view line) = 0;
  // Something a person should know that is no event: a decision that was refused.
  virtual void notice(std::string_view text) = 0;
  // Called after events, keys and beats of the clock. `prompt` is null when nothing is asked.
  virtual void refresh(Instant now, const Prompt* prompt) = 0;
  virtual void resized() {}
  virtual void end(const Ending& ending, Instant now) = 0;
  // False when nobody reads what is shown.
  bool is_read() const { return is_read_; }

 protected:
  void put(std::string_view text) { is_read_ = is_read_ && write_all(1, text); }

 private:
  bool is_read_ = true;
};

std::unique_ptr<View> make_live_view(const Look& look);
std::unique_ptr<View> make_plain_view(const Look& look);
std::unique_ptr<View> make_json_view();

// Result, cost, diagnostic, what waits, and how to go on: what stands below the steps when one run is left.
std::vector<Line> closing_lines(const Run& run, const Ending& ending, std::size_t columns, const Look& look,
                                Instant now);
// The same for several runs: how many ended how.
std::vector<Line> closing_lines(const Ending& ending, const Look& look);

}  // namespace pawl
