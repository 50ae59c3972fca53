// For programs: one line an event, as the API shows it, and a result at the end. With several runs a line names its
// run and the event's seq around the event.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/folder.h"
#include "cli/view.h"
#include "core/event_object.h"
#include "core/run_object.h"

namespace pawl {
namespace {

std::string_view word_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::ended:
      return "ended";
    case Outcome::waiting:
      return "waiting";
    case Outcome::interrupted:
      return "interrupted";
  }
  return "";
}

class JsonView final : public View {
 public:
  void begin(const Run&) override { ++runs_; }

  void on_event(const Run& after, const RunEvent&, std::string_view line) override {
    const std::string event = shown_event_text(line);
    if (runs_ > 1)
      put(fmt::format("{{\"event\":{},\"run\":\"{}\",\"seq\":{}}}\n", event, after.id.str(), after.seq));
    else
      put(fmt::format("{}\n", event));
  }

  void notice(std::string_view text) override {
    put(boost::json::serialize(boost::json::object{{"type", "notice"}, {"message", text}}) + "\n");
  }
  void refresh(Instant, const Prompt*) override {}

  void end(const Ending& ending, Instant) override {
    const Location& location = ending.location;
    for (const Run* run : ending.runs) {
      boost::json::object result{{"type", "result"},
                                 {"outcome", word_of(is_terminal(run->status) ? Outcome::ended : ending.outcome)},
                                 {location.server.empty() ? "journal" : "server",
                                  location.server.empty() ? journal_in(location.folder).string() : location.server},
                                 {"result", result_of(*run)},
                                 {"run", run_object(*run)}};
      put(boost::json::serialize(result) + "\n");
    }
  }

 private:
  std::size_t runs_ = 0;
};

}  // namespace

std::unique_ptr<View> make_json_view() { return std::make_unique<JsonView>(); }

}  // namespace pawl
