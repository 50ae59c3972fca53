// A real `pawl serve` on a folder of its own, and what clients of it do.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/disk.h"
#include "child.h"
#include "client.h"

namespace pawl::bench {

class Served;
struct ServedOptions {
  std::string folder = "served";  // its name
  std::string database;           // postgres://...: not in the folder but there,
  const Served* first = nullptr;  // beside this one, whose key is good here too
};

class Served {
 public:
  // Without workers of its own: all of them are clients.
  Served(const std::filesystem::path& pawl, const std::filesystem::path& parent, const ServedOptions& options = {});

  std::uint16_t port() const { return port_; }
  const std::string& key() const { return key_; }
  const Child& process() const { return process_; }

 private:
  std::vector<std::string> command(const std::filesystem::path& pawl, const ServedOptions& options) const;

  Folder folder_;
  Child process_;
  std::uint16_t port_ = 0;
  std::string key_;
};

// What those that were started in this folder wrote to their logs.
std::string what_servers_said(const std::filesystem::path& parent);

void publish(Client& client, const std::string& name, const std::string& source);

// What the servers did since the object was made: their cores, and their commits.
class Meanwhile {
 public:
  explicit Meanwhile(std::vector<const Served*> servers);
  std::string text() const;

 private:
  struct Commits {
    double count = 0;
    double seconds = 0;
  };
  Commits commits() const;

  std::vector<const Served*> servers_;
  Commits before_;
  double begin_;
  Cores cores_;
};

// What is measured in one round: the middle round's is told.
struct RoundFigure {
  double per_s = 0;
  std::string meanwhile;
};
RoundFigure middle(std::vector<RoundFigure> rounds);

struct Post {
  std::string path;
  std::string body;
};
// `count` requests over all the connections that the client has; `request` gives each, by its number. Seconds it took.
double post_many(Client& client, std::uint64_t count, int status, const std::function<Post(std::uint64_t)>& request);

// Creates `count` runs in batches; their ids.
std::vector<std::string> create_many(Client& client, const std::string& workflow, std::uint64_t count);

// To each server, two connections that create runs in batches, and four workers that lease and complete steps in
// batches, on and on.
class BatchWork {
 public:
  BatchWork(Client& client, const std::vector<std::uint16_t>& ports, std::string workflow, std::uint64_t steps_a_run);
  // Until so many more runs have ended. Seconds it took.
  double run(std::uint64_t runs);

 private:
  void create(std::size_t connection);
  void lease(std::size_t connection);
  void complete(std::size_t connection, std::string_view leases);

  Client& client_;
  const std::string workflow_;
  const std::uint64_t steps_a_run_;
  std::deque<std::size_t> creators_idle_;
  std::uint64_t wanted_ = 0;     // runs
  std::uint64_t created_ = 0;    // runs, or about to be
  std::uint64_t completed_ = 0;  // steps
  std::string body_;
};

// As many people with one run each: create it, then one lease and one completion after the other, as many as it has
// steps, then the next. A step that is leased may be another's; none waits for ever, because all want as many as there
// are. Seconds it took.
double run_singles(Client& client, const std::string& workflow, std::uint64_t steps_a_run, std::uint64_t runs);

// One run after the other. A worker waits in a long poll, somebody follows the feed; the time is from sending
// POST /runs to reading the run's end from the feed.
class LatencyWork {
 public:
  LatencyWork(Client& client, const std::string& workflow);
  double run_one();

 private:
  void lease();
  void hear(std::string_view bytes);

  Client& client_;
  const std::string create_body_;
  std::size_t creator_, worker_, follower_;
  bool follows_ = false;
  bool leasing_ = false;
  bool created_ = false;
  std::string heard_;
  std::uint64_t ended_ = 0;
};

}  // namespace pawl::bench
