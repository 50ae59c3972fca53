// pawl events: the journal of a run, or the tenant's feed as it happens.
#include <fmt/format.h>
#include <poll.h>

#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/remote.h"
#include "cli/served_run.h"
#include "core/event_object.h"
#include "store/stream.h"

namespace pawl {
namespace {

void print_line(std::string_view line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

std::string form_of(std::string_view line, bool raw) { return raw ? std::string(line) : shown_event_text(line); }

void put_lines(const WholeStream& stream, bool raw) {
  for (const StreamLine& line : stream.lines) print_line(form_of(line.text, raw));
}

void say(std::string_view notice) { fmt::print(stderr, "pawl: {}\n", notice); }

// From its beginning, for as long as nobody interrupts.
[[noreturn]] void follow_run(const Remote& remote, RunId id, bool raw) {
  ServedRun run(remote, id, 0);
  run.start();
  while (true) {
    pollfd waits{.fd = run.news_fd(), .events = POLLIN, .revents = 0};
    ::poll(&waits, 1, -1);
    for (const RunNews& news : run.take_news())
      for (std::string_view rest = news.lines; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1))
        print_line(form_of(rest.substr(0, rest.find('\n')), raw));
    for (const std::string& notice : run.take_notices()) say(notice);
  }
}

constexpr std::string_view event_key = ",\"event\":";

// Comes back by itself, and goes on after the last event it saw.
[[noreturn]] void follow_feed(Remote remote, const std::string& run, std::string after, bool raw) {
  Pauses pauses(std::chrono::milliseconds(100), std::chrono::seconds(2));
  bool away = false;
  while (true) {
    std::string path = "/events?raw=true";
    if (!run.empty()) path += "&run=" + run;
    if (!after.empty()) path += "&after=" + after;
    auto opened = [&] {
      pauses.start_over();
      if (std::exchange(away, false)) say(fmt::format("{} is back", remote.url()));
    };
    auto take = [&](std::string_view data) {
      auto message = parse_json(data);
      if (!message || !message->is_object()) return;
      // The event is the last member, and what stands before it holds no text of anybody.
      const auto begin = data.find(event_key) + event_key.size();
      const std::string event = form_of(data.substr(begin, data.size() - begin - 1), raw);
      print_line(run.empty() ? std::string(data.substr(0, begin)) + event + "}" : event);
    };
    try {
      remote.follow(path, {opened, take, [&](std::string position) { after = std::move(position); }}, {});
    } catch (const Stop& stop) {
      // Without a position there would be a hole that nobody sees.
      if (!is_away(stop) || (after.empty() && !away)) throw;
      if (!std::exchange(away, true)) say(fmt::format("{}; waiting for it to come back", stop.what()));
    }
    std::this_thread::sleep_for(pauses.next());
    remote.look_again();
  }
}

}  // namespace

ExitCode print_events(const EventsOptions& options) {
  auto folder = data_folder(options.data);
  if (options.follow || options.run.empty()) {
    Remote remote = Remote::require(options.server, folder);
    if (options.run.empty()) follow_feed(remote, "", options.after, options.raw);
    RunId run = remote.find_run(options.run);
    if (options.after.empty()) follow_run(remote, run, options.raw);
    follow_feed(remote, run.str(), options.after, options.raw);
  }
  if (auto remote = Remote::find_named(options.server, folder)) {
    put_lines(remote->stream(remote->find_run(options.run)), options.raw);
    return exit_success;
  }
  auto store = open_to_read(folder);
  FoundRun found = find_run(*store, options.run);
  put_lines(read_stream(*store, StreamKey::of(found.tenant, found.id)), options.raw);
  return exit_success;
}

}  // namespace pawl
