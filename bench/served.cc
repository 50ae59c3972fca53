#include "served.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "bench/figures.h"
#include "measure.h"

namespace pawl::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t batch = 500;
constexpr std::uint64_t in_flight = 8192;  // as in the engine's own benchmark
constexpr int creators = 2;
constexpr int workers = 4;
constexpr std::string_view lease_path = "/leases";
constexpr std::string_view complete_path = "/leases/complete";

std::string lease_body(std::size_t worker, std::uint64_t max) {
  return fmt::format(R"({{"worker":"w{}","tools":["noop"],"max":{},"wait":"60s"}})", worker, max);
}

std::string create_body(const std::string& workflow) { return fmt::format(R"({{"workflow":"{}"}})", workflow); }

std::string batch_body(const std::string& workflow, std::uint64_t count) {
  std::string body = R"({"items":[)";
  for (std::uint64_t i = 0; i < count; ++i) (body += i > 0 ? "," : "") += create_body(workflow);
  return body + "]}";
}

// Calls `visit` with what stands between each `begin` and the next `end`, and counts them: what a client must
// understand of these answers is found without making values of all the rest.
template <class Visit>
std::uint64_t for_each_between(std::string_view text, std::string_view begin, char end, Visit visit) {
  std::uint64_t count = 0;
  for (std::size_t at = text.find(begin); at != text.npos; at = text.find(begin, at), ++count) {
    at += begin.size();
    std::size_t length = text.substr(at).find(end);
    visit(text.substr(at, length));
    at += length;
  }
  return count;
}

// {"items":[{"lease_id":...,"token":...,"output":{}}, ...]} out of a lease answer. How many there are.
std::uint64_t write_completion(std::string& body, std::string_view leases) {
  body = R"({"items":[)";
  // The first two of a lease's keys, with their values.
  std::uint64_t count = for_each_between(leases, R"({"lease_id":)", '}', [&](std::string_view lease) {
    std::size_t token = lease.find(R"("token":)");
    std::string_view both = lease.substr(0, lease.find(',', token));
    if (body.back() == '}') body += ',';
    ((body += R"({"lease_id":)") += both) += R"(,"output":{}})";
  });
  body += "]}";
  return count;
}

void expect_all_ok(std::string_view answer, std::uint64_t count) {
  if (for_each_between(answer, R"("ok":true)", '}', [](std::string_view) {}) != count)
    throw std::runtime_error(fmt::format("some of {} completions were refused: {}", count, answer));
}

std::vector<const Child*> processes(const std::vector<const Served*>& servers) {
  std::vector<const Child*> out;
  for (const Served* served : servers) out.push_back(&served->process());
  return out;
}

}  // namespace

Served::Served(const fs::path& pawl, const fs::path& parent, const ServedOptions& options)
    : folder_(parent, options.folder), process_(command(pawl, options), parent / (options.folder + ".errors")) {
  double patience = seconds_now() + 30;
  while (!fs::exists(folder_.path() / "server.json")) {
    if (seconds_now() > patience) throw std::runtime_error("pawl serve did not start");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string about;
  std::getline(std::ifstream(folder_.path() / "server.json"), about);
  constexpr std::string_view before_port = "127.0.0.1:";
  std::from_chars(about.data() + about.find(before_port) + before_port.size(), about.data() + about.size(), port_);
  std::getline(std::ifstream(folder_.path() / "admin.key"), key_);
}

std::vector<std::string> Served::command(const fs::path& pawl, const ServedOptions& options) const {
  std::vector<std::string> out{pawl.string(), "serve",       "--data",      folder_.path().string(),
                               "--listen",    "127.0.0.1:0", "--no-workers"};
  if (!options.database.empty()) out.insert(out.end(), {"--store", options.database});
  if (options.first) {
    fs::create_directories(folder_.path());
    fs::copy_file(options.first->folder_.path() / "secret", folder_.path() / "secret");
  }
  return out;
}

Meanwhile::Meanwhile(std::vector<const Served*> servers)
    : servers_(std::move(servers)), before_(commits()), begin_(seconds_now()), cores_(processes(servers_)) {}

Meanwhile::Commits Meanwhile::commits() const {
  Commits all;
  for (const Served* served : servers_) {
    std::string figures = Client(served->port(), served->key()).ask("GET", "/metrics", "", 200);
    auto value = [&](std::string_view name) {
      std::size_t at = figures.find("\n" + std::string(name) + " ");
      if (at == figures.npos) throw std::runtime_error(fmt::format("/metrics has no {}", name));
      return std::strtod(figures.c_str() + at + 1 + name.size(), nullptr);
    };
    all.count += value("pawl_commit_seconds_count");
    all.seconds += value("pawl_commit_seconds_sum");
  }
  return all;
}

std::string Meanwhile::text() const {
  std::string cores = cores_.text();
  double took = seconds_now() - begin_;
  Commits now = commits();
  double count = now.count - before_.count;
  return fmt::format("{}; {:.0f} commits/s of {:.2f} ms", cores, count / took,
                     (now.seconds - before_.seconds) / std::max(1.0, count) * 1e3);
}

std::string what_servers_said(const fs::path& parent) {
  std::stringstream said;
  for (const auto& entry : fs::directory_iterator(parent))
    if (entry.path().extension() == ".errors")
      said << "the server " << entry.path().stem().string() << " said: " << std::ifstream(entry.path()).rdbuf() << "\n";
  return said.str();
}

void publish(Client& client, const std::string& name, const std::string& source) {
  client.ask("PUT", "/workflows/" + name, source, 201);
}

RoundFigure middle(std::vector<RoundFigure> rounds) {
  std::ranges::sort(rounds, {}, &RoundFigure::per_s);
  return rounds[rounds.size() / 2];
}

double post_many(Client& client, std::uint64_t count, int status, const std::function<Post(std::uint64_t)>& request) {
  std::uint64_t sent = 0, answered = 0;
  std::function<void(std::size_t)> next = [&](std::size_t connection) {
    if (sent == count) return;
    Post post = request(sent++);
    client.send(connection, "POST", post.path, post.body, [&, connection](int got, std::string_view body) {
      expect_status(got, status, body);
      ++answered;
      next(connection);
    });
  };
  double begin = seconds_now();
  for (std::size_t i = 0; i < client.size(); ++i) next(i);
  client.run_until([&] { return answered == count; });
  return seconds_now() - begin;
}

std::vector<std::string> create_many(Client& client, const std::string& workflow, std::uint64_t count) {
  std::vector<std::string> ids;
  while (ids.size() < count) {
    std::string answer =
        client.ask("POST", "/runs/batch", batch_body(workflow, std::min(batch, count - ids.size())), 200);
    for_each_between(answer, R"("id":")", '"', [&](std::string_view id) { ids.emplace_back(id); });
  }
  return ids;
}

BatchWork::BatchWork(Client& client, const std::vector<std::uint16_t>& ports, std::string workflow,
                     std::uint64_t steps_a_run)
    : client_(client), workflow_(std::move(workflow)), steps_a_run_(steps_a_run) {
  for (std::uint16_t port : ports) {
    for (int i = 0; i < creators; ++i) creators_idle_.push_back(client.connect(port));
    for (int i = 0; i < workers; ++i) lease(client.connect(port));
  }
}

double BatchWork::run(std::uint64_t runs) {
  double begin = seconds_now();
  wanted_ += runs;
  client_.run_until([&] {
    while (!creators_idle_.empty() && created_ < wanted_ && created_ < completed_ / steps_a_run_ + in_flight) {
      std::size_t connection = creators_idle_.front();
      creators_idle_.pop_front();
      create(connection);
    }
    return completed_ == wanted_ * steps_a_run_;
  });
  return seconds_now() - begin;
}

void BatchWork::create(std::size_t connection) {
  std::uint64_t count = std::min(batch, wanted_ - created_);
  created_ += count;
  client_.send(connection, "POST", "/runs/batch", batch_body(workflow_, count),
               [this, connection, count](int status, std::string_view body) {
                 expect_status(status, 200, body);
                 if (for_each_between(body, R"("status":201)", '}', [](std::string_view) {}) != count)
                   throw std::runtime_error(fmt::format("some of {} creations were refused: {}", count, body));
                 creators_idle_.push_back(connection);
               });
}

void BatchWork::lease(std::size_t connection) {
  client_.send(connection, "POST", lease_path, lease_body(connection, batch),
               [this, connection](int status, std::string_view body) {
                 expect_status(status, 200, body);
                 complete(connection, body);
               });
}

void BatchWork::complete(std::size_t connection, std::string_view leases) {
  std::uint64_t count = write_completion(body_, leases);
  if (count == 0) return lease(connection);
  client_.send(connection, "POST", complete_path, body_, [this, connection, count](int status, std::string_view body) {
    expect_status(status, 200, body);
    expect_all_ok(body, count);
    completed_ += count;
    lease(connection);
  });
}

double run_singles(Client& client, const std::string& workflow, std::uint64_t steps_a_run, std::uint64_t runs) {
  std::vector<std::uint64_t> steps_left(client.size());
  std::uint64_t created = 0, ended = 0;
  std::string new_run = create_body(workflow), completion;
  std::function<void(std::size_t)> next = [&](std::size_t who) {
    if (steps_left[who] == 0) {
      if (created == runs) return;
      ++created;
      steps_left[who] = steps_a_run;
      return client.send(who, "POST", "/runs", new_run, [&, who](int status, std::string_view body) {
        expect_status(status, 201, body);
        next(who);
      });
    }
    client.send(who, "POST", lease_path, lease_body(who, 1), [&, who](int status, std::string_view leases) {
      expect_status(status, 200, leases);
      if (write_completion(completion, leases) == 0) return next(who);
      client.send(who, "POST", complete_path, completion, [&, who](int got, std::string_view answer) {
        expect_status(got, 200, answer);
        expect_all_ok(answer, 1);
        if (--steps_left[who] == 0) ++ended;
        next(who);
      });
    });
  };
  double begin = seconds_now();
  for (std::size_t who = 0; who < steps_left.size(); ++who) next(who);
  client.run_until([&] { return ended == runs; });
  return seconds_now() - begin;
}

LatencyWork::LatencyWork(Client& client, const std::string& workflow)
    : client_(client),
      create_body_(create_body(workflow)),
      creator_(client.connect()),
      worker_(client.connect()),
      follower_(client.connect()) {
  client_.follow(
      follower_, "/events", [this] { follows_ = true; }, [this](std::string_view bytes) { hear(bytes); });
  client_.run_until([this] { return follows_; });
  lease();
}

void LatencyWork::lease() {
  leasing_ = true;
  client_.send(worker_, "POST", lease_path, lease_body(worker_, 1), [this](int status, std::string_view leases) {
    expect_status(status, 200, leases);
    leasing_ = false;
    std::string completion;
    if (write_completion(completion, leases) == 0) return lease();
    client_.send(worker_, "POST", complete_path, completion, [this](int got, std::string_view answer) {
      expect_status(got, 200, answer);
      expect_all_ok(answer, 1);
      lease();
    });
  });
}

void LatencyWork::hear(std::string_view bytes) {
  constexpr std::string_view the_end = R"("type":"run.succeeded")";
  heard_ += bytes;
  std::size_t at = heard_.find(the_end);
  if (at == heard_.npos) return;
  ++ended_;
  heard_.erase(0, at + the_end.size());
}

double LatencyWork::run_one() {
  std::uint64_t before = ended_;
  created_ = false;
  double begin = seconds_now();
  client_.send(creator_, "POST", "/runs", create_body_, [this](int status, std::string_view body) {
    expect_status(status, 201, body);
    created_ = true;
  });
  client_.run_until([&] { return ended_ > before; });
  double took = seconds_now() - begin;
  client_.run_until([&] { return created_ && leasing_; });
  return took;
}

}  // namespace pawl::bench
