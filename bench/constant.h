// An HTTP handler that says the same to everybody, at once: the other side of a call, when that side shall cost
// nothing.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "http/message.h"

namespace pawl::bench {

class Constant final : public http::Handler {
 public:
  explicit Constant(std::string body) : body_(std::move(body)) {}
  void handle(http::Request, http::Responder respond) override {
    respond({.status = 201, .content_type = "application/json", .body = body_, .headers = {}, .stream = {}});
  }
  http::Response refuse(int status, std::string_view, std::string_view) override { return {.status = status}; }

 private:
  std::string body_;
};

}  // namespace pawl::bench
