// pawl events: the journal of a run, or the tenant's feed as it happens.
#include <fmt/format.h>
#include <poll.h>

#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/remote.h"
#include "cli/served_run.h"
#include "store/stream.h"

namespace pawl {
namespace {

void print_line(std::string_view line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void put_lines(const WholeStream& stream) {
  for (const StreamLine& line : stream.lines) print_line(line.text);
}

void say(std::string_view notice) { fmt::print(stderr, "pawl: {}\n", notice); }

// From its beginning, for as long as nobody interrupts.
[[noreturn]] void follow_run(const Remote& remote, RunId id) {
  ServedRun run(remote, id, 0);
  run.start();
  while (true) {
    pollfd waits{.fd = run.news_fd(), .events = POLLIN, .revents = 0};
    ::poll(&waits, 1, -1);
    for (const RunNews& news : run.take_news()) fmt::print("{}", news.lines);
    std::fflush(stdout);
    for (const std::string& notice : run.take_notices()) say(notice);
  }
}

// Comes back by itself, and goes on after the last event it saw.
[[noreturn]] void follow_feed(Remote remote, const std::string& run, std::string after) {
  Pauses pauses(std::chrono::milliseconds(100), std::chrono::seconds(2));
  bool away = false;
  while (true) {
    std::string path = "/events?";
    if (!run.empty()) path += "run=" + run + "&";
    if (!after.empty()) path += "after=" + after;
    auto opened = [&] {
      pauses.start_over();
      if (std::exchange(away, false)) say(fmt::format("{} is back", remote.url()));
    };
    auto take = [&](std::string_view data) {
      auto message = parse_json(data);
      if (!message || !message->is_object()) return;
      after = message->at("position").as_string();
      print_line(run.empty() ? std::string(data) : canonical(message->at("event")));
    };
    try {
      remote.follow(path, {opened, take}, {});
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
    if (options.run.empty()) follow_feed(remote, "", options.after);
    RunId run = remote.find_run(options.run);
    if (options.after.empty()) follow_run(remote, run);
    follow_feed(remote, run.str(), options.after);
  }
  if (auto remote = Remote::find_named(options.server, folder)) {
    put_lines(remote->stream(remote->find_run(options.run)));
    return exit_success;
  }
  auto store = open_to_read(folder);
  FoundRun found = find_run(*store, options.run);
  put_lines(read_stream(*store, StreamKey::of(found.tenant, found.id)));
  return exit_success;
}

}  // namespace pawl
