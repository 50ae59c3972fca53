// A server that the verbs talk to, where there is one: named by --server or $PAWL_SERVER, or the one that serves the
// data folder.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/id.h"
#include "core/json.h"
#include "store/stream.h"

namespace pawl {

class Remote {
 public:
  // Key: $PAWL_KEY, else admin.key in the data folder.
  static std::optional<Remote> find(const std::string& server_flag, const std::filesystem::path& folder);
  // Only when one is named: for verbs that can just as well look into the folder.
  static std::optional<Remote> find_named(const std::string& server_flag, const std::filesystem::path& folder);
  // The same, and a Stop that says what to do when there is none.
  static Remote require(const std::string& server_flag, const std::filesystem::path& folder);

  // What the server answers; its refusal as a Stop with what it said.
  Json get(const std::string& path) const { return call("GET", path, {}); }
  Json post(const std::string& path, const Json& body) const;
  Json put(const std::string& path, const std::string& body) const { return call("PUT", path, body); }
  Json remove(const std::string& path) const { return call("DELETE", path, {}); }

  // One JSON text a message, until the server ends it or `each` returns false.
  void follow(const std::string& path, const std::function<bool(std::string_view data)>& each) const;

  // As find_run() does it for a folder: the whole id, its beginning, or its last six characters.
  RunId find_run(std::string_view text) const;
  // The run's whole stream, as the journal has it.
  WholeStream stream(RunId run) const;

  const std::string& url() const { return url_; }

 private:
  Remote(std::string url, std::string key) : url_(std::move(url)), key_(std::move(key)) {}
  Json call(const char* method, const std::string& path, const std::string& body) const;

  std::string url_;
  std::string key_;
};

// What a server answered to a decision: for people when there is a word for it, else one JSON object.
void print_decided(const Json& run, std::string_view word);

// For a path or a query.
std::string percent_encode(std::string_view text);

}  // namespace pawl
