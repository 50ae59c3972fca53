// A server that the commands talk to, where there is one: named by --server or $PAWL_SERVER, or the one that serves the
// data folder.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/folder.h"
#include "core/id.h"
#include "core/json.h"
#include "store/stream.h"

namespace pawl {

class Remote {
 public:
  // Key: $PAWL_KEY, else admin.key in the data folder.
  static std::optional<Remote> find(const std::string& server_flag, const std::filesystem::path& folder);
  // Only when one is named, or the folder's own server keeps its runs elsewhere: for commands that can otherwise just
  // as well look into the folder.
  static std::optional<Remote> find_named(const std::string& server_flag, const std::filesystem::path& folder);
  // The same, and a Stop that says what to do when there is none.
  static Remote require(const std::string& server_flag, const std::filesystem::path& folder);

  // What the server answers; its refusal as a Stop with what it said.
  Json get(const std::string& path) const { return call("GET", path, {}); }
  std::string get_bytes(const std::string& path) const { return send("GET", path, {}, {}); }
  // A list whole, page by page.
  Json get_all(const std::string& path) const;
  Json post(const std::string& path, const Json& body) const;
  Json put(const std::string& path, const std::string& body) const { return call("PUT", path, body); }
  Json patch(const std::string& path, const Json& body) const;
  Json remove(const std::string& path) const { return call("DELETE", path, {}); }

  // Whatever it answers, refusals too.
  struct Exchange {
    long status = 0;
    std::string body;
  };
  Exchange exchange(const char* method, const std::string& path, const std::string& body,
                    const std::vector<std::string>& headers) const;

  // Once, however often it is sent: for a request whose answer may be lost.
  Json post_once(const std::string& path, const Json& body, const std::string& idempotency_key) const;

  struct Listener {
    std::function<void()> opened;                             // from here on nothing is missed
    std::function<void(std::string_view data)> message;       // one JSON text
    std::function<void(std::string position)> position = {};  // where to go on; also when there was no message
  };
  // Until the server ends it or `stop` is requested.
  void follow(const std::string& path, const Listener& listener, const std::stop_token& stop) const;
  // A server that was found by its folder may have come back at another address.
  void look_again();
  // No answer takes longer than this.
  void answer_within(std::chrono::milliseconds limit) { limit_ = limit; }

  // As find_run() does it for a folder: the whole id, its beginning, or its last six characters. Also that of its task,
  // of one of its approvals, or of a receipt.
  RunId find_run(std::string_view text) const;
  // The whole id of a task, or the end of one that is no other's.
  std::string find_task(const std::string& text) const;
  // The run's stream, as the journal has it, from the event after this one on.
  WholeStream stream(RunId run, std::uint64_t after = 0) const;

  const std::string& url() const { return url_; }
  // As this server is found again.
  Location location() const;

 private:
  Remote() = default;
  std::string send(const char* method, const std::string& path, const std::string& body, std::string_view header) const;
  Json call(const char* method, const std::string& path, const std::string& body, std::string_view header = {}) const;

  std::string url_;
  std::string key_;
  std::string public_key_;  // of a server with TLS that serves the folder
  std::filesystem::path folder_;
  bool by_folder_ = false;      // not named: the one that serves the folder
  bool key_by_folder_ = false;  // the folder's admin.key
  std::chrono::milliseconds limit_{60'000};
};

// Longer each time, up to a point.
class Pauses {
 public:
  Pauses(std::chrono::milliseconds first, std::chrono::milliseconds last) : next_(first), first_(first), last_(last) {}
  std::chrono::milliseconds next() { return std::exchange(next_, std::min(next_ * 2, last_)); }
  void start_over() { next_ = first_; }

 private:
  std::chrono::milliseconds next_, first_, last_;
};

// Whether the same call may succeed when the server is back, or has time.
inline bool is_away(const Stop& stop) { return stop.code() == exit_busy; }

// Until it works: a server that is away comes back. Gives up, as the last call did, when that takes longer than this.
template <class Call>
auto insist(Call call, std::chrono::milliseconds patience = std::chrono::milliseconds::max()) {
  Pauses pauses(std::chrono::milliseconds(200), std::chrono::seconds(10));
  for (auto waited = std::chrono::milliseconds(0);;) {
    auto pause = pauses.next();
    try {
      return call();
    } catch (const Stop& stop) {
      if (!is_away(stop) || waited >= patience) throw;
    }
    std::this_thread::sleep_for(pause);
    waited += pause;
  }
}

// What a server answered to a decision: for people when there is a word for it, else one JSON object.
void print_decided(const Json& run, std::string_view word);

// For a path or a query.
std::string percent_encode(std::string_view text);

}  // namespace pawl
