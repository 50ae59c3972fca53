// What connectors share: a JSON API that is called, its answers and refusals, and the names of what is done to it.
#pragma once

#include <expected>
#include <functional>
#include <initializer_list>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "tools/arguments.h"
#include "tools/http_outcome.h"

namespace pawl {

struct ApiAnswer {
  HttpAnswer http;
  Json body;  // null when it is not JSON
};

// A call that failed. A tool decides by the status, never by the message.
struct ApiFailed : Failed {
  int status = 0;  // of the answer; 0: there was none
};

// One attempt's calls to one API.
class ApiClient {
 public:
  // What an answer of 400 or above means where that is not what it means everywhere. Given the failure as it would be,
  // it changes what it knows better.
  using Explain = std::function<void(const ApiAnswer& answer, Instant now, Failed& failed)>;

  struct Options {
    std::string base;  // without a slash at the end
    HttpHeaders headers = {};
    Duration timeout{};
    Explain explain = {};
  };
  ApiClient(const ToolLimits& limits, Options options, std::stop_token stop)
      : limits_(limits), options_(std::move(options)), stop_(std::move(stop)) {}

  // `path` begins with a slash. An answer of 400 or above is a failure, and so is one that is not JSON when it has a
  // body.
  std::expected<ApiAnswer, ApiFailed> call(std::string method, const std::string& path, const Json* body,
                                           Instant now) const;
  std::expected<ApiAnswer, ApiFailed> get(const std::string& path, Instant now) const {
    return call("GET", path, nullptr, now);
  }

 private:
  const ToolLimits& limits_;
  const Options options_;
  const std::stop_token stop_;
};

// The member, or null. Never throws.
const Json* member(const Json& value, std::string_view key);
// Its text, empty when it is none.
std::string text_member(const Json& value, std::string_view key);

std::string url_encoded(std::string_view text);

// An http or https URL without a slash at its end; refuses the key otherwise.
std::string base_url(Arguments& with, std::string_view key, std::string_view otherwise);

// The beginning of sha256 over the canonical text: two that differ do not share one.
std::string short_hash(const Json& value);

// `shown`, a template, with these texts as values: what is proposed has one spelling, that which is sent.
using FieldText = std::pair<std::string_view, std::string_view>;
JsonText with_fields(const JsonText& shown, std::initializer_list<FieldText> texts);

// A target as policies know it: its name where it is at the connector's own address, and behind the address elsewhere,
// so that what is allowed at the one is not allowed at the other.
std::string target_at(std::string_view base, std::string_view own, std::string_view name);

// For the undo of what this lease does.
std::string undo_key(const Lease& lease);

// Time that a call may take: `timeout` in `with`.
Duration timeout_of(Arguments& with, Duration otherwise);

// What logs in is not good, or not for this, or a quota is used up: no further attempt changes that.
void not_again(Failed& failed);

// For plan() and has_happened(), which are given no clock; only Retry-After as a date needs one.
Instant wall_clock();

}  // namespace pawl
