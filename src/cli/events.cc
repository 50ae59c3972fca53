// pawl events: the journal of a run, or the tenant's feed as it happens.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/remote.h"
#include "cli/folder.h"
#include "cli/verbs.h"
#include "store/stream.h"

namespace pawl {
namespace {

void put(std::string_view line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// Reconnects by itself, going on after the last event it saw.
[[noreturn]] void follow(const Remote& remote, const EventsOptions& options) {
  std::string run = options.run.empty() ? "" : remote.find_run(options.run).str();
  std::string after = options.after;
  // A run is followed from its beginning, unless told otherwise.
  if (!run.empty() && after.empty()) {
    for (const StreamLine& line : remote.stream(*RunId::parse(run)).lines) put(line.text);
  }
  while (true) {
    std::string path = "/events?";
    if (!run.empty()) path += "run=" + run + "&";
    if (!after.empty()) path += "after=" + after;
    remote.follow(path, [&](std::string_view data) {
      auto message = parse_json(data);
      if (!message || !message->is_object()) return true;
      after = message->at("position").as_string();
      put(run.empty() ? std::string(data) : canonical(message->at("event")));
      return true;
    });
  }
}

}  // namespace

ExitCode print_events(const EventsOptions& options) {
  auto folder = data_folder(options.data);
  if (options.follow || options.run.empty()) follow(Remote::require(options.server, folder), options);
  if (auto remote = Remote::find_named(options.server, folder)) {
    for (const StreamLine& line : remote->stream(remote->find_run(options.run)).lines) put(line.text);
    return exit_success;
  }
  auto store = open_to_read(folder);
  FoundRun found = find_run(*store, options.run);
  for (const StreamLine& line : read_stream(*store, StreamKey::of(found.tenant, found.id)).lines) put(line.text);
  return exit_success;
}

}  // namespace pawl
