// HTTP to one provider: many requests at once over few connections, each with a limit on everything. For one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "aws/access.h"
#include "core/time.h"

namespace pawl::providers {

struct Request {
  std::string method = "POST";
  std::string url;
  std::vector<std::string> headers;  // "name: value"
  std::string body;
  // Signed for AWS when a region is given.
  std::string region;
  std::string service;
};

struct Response {
  int status = 0;       // 0: there was no answer,
  std::string problem;  // because of this
  std::string body;

  bool is_ok() const { return status / 100 == 2; }
};

struct TransportOptions {
  Duration connect_timeout = std::chrono::seconds(5);
  Duration timeout = std::chrono::seconds(20);
  std::size_t at_once_max = 16;
  std::size_t body_bytes_max = std::size_t{64} << 20;
  AwsAccess access = {};
};

class Transport {
 public:
  explicit Transport(TransportOptions options);
  ~Transport();

  // One response each, in their order. After a stop those that are left have none.
  std::vector<Response> exchange(const std::vector<Request>& requests);
  Response exchange(Request request);
  // From any thread: nothing more is waited for.
  void stop() { stop_.request_stop(); }

 private:
  struct Transfer;
  void begin(Transfer& transfer);
  void end(Transfer& transfer, int code);

  TransportOptions options_;
  std::stop_source stop_;
  void* multi_;
};

// A part of a path, with what would end it escaped.
std::string escaped(std::string_view text);
// Scheme and host are there, and nothing that does not belong.
bool is_base_url(std::string_view text);

}  // namespace pawl::providers
