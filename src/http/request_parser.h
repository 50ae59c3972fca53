#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <cstdint>
#include <string_view>

#include "http/request_check.h"
#include "http/server.h"

namespace pawl::http {

namespace beast = boost::beast;
using boost::system::error_code;

// Beast reads the syntax, straight into a Request.
class RequestParser final : public beast::http::basic_parser<true> {
 public:
  explicit RequestParser(const ServerOptions& options) : header_bytes_left_(options.header_bytes_max) {
    header_limit(static_cast<std::uint32_t>(options.header_bytes_max));
    body_limit(boost::none);  // known once the head was judged
  }

  // Beast reads a header that goes on in the next line (obs-fold), as servers did before RFC 7230. A proxy in front may
  // read something else, so it is refused.
  std::size_t put_head(std::string_view bytes, error_code& error) {
    const auto taken = put(boost::asio::buffer(bytes), error);
    for (const char c : bytes.substr(0, taken)) {
      is_folded_ = is_folded_ || (line_ended_ && (c == ' ' || c == '\t'));
      line_ended_ = c == '\n';
    }
    if (is_folded_) error = beast::http::error::bad_obs_fold;
    return taken;
  }
  // Of a body that is announced to be larger.
  bool limit_body(std::size_t bytes_max) {
    body_limit(bytes_max);
    return content_length().value_or(0) <= bytes_max;
  }

  Request request;
  bool is_http_1_0() const { return http_1_0_; }
  const std::string& authority() const { return authority_; }  // that the target names; empty: none

  // Why parsing ended with this error.
  Refusal refusal(error_code why) const {
    using beast::http::error;
    if (why == error::header_limit)
      return {.status = 431, .code = "HEADERS_TOO_LARGE", .detail = "the request's headers are too large"};
    if (why == error::body_limit)
      return {.status = 413, .code = "BODY_TOO_LARGE", .detail = "the request's body is too large"};
    if (is_folded_) return malformed("a header goes on in the next line, which HTTP/1.1 does not allow any more");
    if (method_is_unknown_) return {.status = 501, .code = "METHOD_UNKNOWN", .detail = "this method is not known"};
    return malformed("this is not a well-formed HTTP/1.1 request");
  }

 private:
  static constexpr std::size_t headers_max = 128;

  // Beast holds each piece against the limit, not their sum: one that comes line by line would have none.
  void count_header(std::size_t bytes, error_code& error) {
    if (bytes > header_bytes_left_ || request.headers.size() >= headers_max)
      error = beast::http::error::header_limit;
    else
      header_bytes_left_ -= bytes;
  }

  void on_request_impl(beast::http::verb verb, beast::string_view method, beast::string_view target, int version,
                       error_code& error) override {
    http_1_0_ = version < 11;
    switch (verb) {
      case beast::http::verb::get:
        request.method = Method::get;
        break;
      case beast::http::verb::head:
        request.method = Method::head;
        break;
      case beast::http::verb::post:
        request.method = Method::post;
        break;
      case beast::http::verb::put:
        request.method = Method::put;
        break;
      case beast::http::verb::patch:
        request.method = Method::patch;
        break;
      case beast::http::verb::delete_:
        request.method = Method::delete_;
        break;
      case beast::http::verb::options:
        request.method = Method::options;
        break;
      default:
        method_is_unknown_ = true;
        error = beast::http::error::bad_method;
        return;
    }
    count_header(method.size() + target.size() + std::string_view("  HTTP/1.1\r\n").size(), error);
    if (error) return;
    const bool understood = take_authority(target);
    const bool is_path = target.starts_with('/') || (!authority_.empty() && (target.empty() || target.front() == '?'));
    if (!understood || (!is_path && !(target == "*" && request.method == Method::options))) {
      error = beast::http::error::bad_target;
      return;
    }
    const auto question = target.find('?');
    request.path = target.substr(0, question);
    if (request.path.empty()) request.path = request.method == Method::options ? "*" : "/";
    if (question != beast::string_view::npos) request.query = target.substr(question + 1);
    request.headers.reserve(12);
  }
  // http://host/path, as one says it to a proxy and every server has to understand it. False when there is no host in
  // it.
  bool take_authority(beast::string_view& target) {
    const auto scheme = target.find("://");
    if (scheme == beast::string_view::npos || target.starts_with('/')) return true;
    if (!equal_ignoring_case({target.data(), scheme}, "http") && !equal_ignoring_case({target.data(), scheme}, "https"))
      return false;
    target.remove_prefix(scheme + 3);
    authority_ = target.substr(0, target.find_first_of("/?"));
    if (authority_.empty() || authority_.find('@') != std::string::npos) return false;
    target.remove_prefix(authority_.size());
    return true;
  }
  void on_response_impl(int, beast::string_view, int, error_code&) override {}
  void on_field_impl(beast::http::field, beast::string_view name, beast::string_view value,
                     error_code& error) override {
    // A trailer comes when the headers have long been judged; it must not change them.
    if (is_header_done()) return;
    count_header(name.size() + value.size() + std::string_view(": \r\n").size(), error);
    auto& [key, text] = request.headers.emplace_back(name, value);
    for (char& c : key)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(beast::string_view bytes, error_code&) override {
    request.body.append(bytes);
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view bytes, error_code&) override {
    request.body.append(bytes);
    return bytes.size();
  }
  void on_finish_impl(error_code&) override {}

  std::string authority_;
  std::size_t header_bytes_left_;
  bool http_1_0_ = false;
  bool line_ended_ = false;
  bool is_folded_ = false;
  bool method_is_unknown_ = false;
};

}  // namespace pawl::http
