#include "tools/http_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/characters.h"

namespace pawl {
namespace {

// libcurl frames the message; two opinions on where it ends are how requests are smuggled. The host is the URL's, which
// is what a policy judges.
constexpr std::array<std::string_view, 4> fixed_headers = {"content-length", "transfer-encoding", "connection", "host"};
// Names of another host or path, which some servers take instead of the URL's.
constexpr std::array<std::string_view, 11> diverting_headers = {
    "forwarded",      "x-forwarded-host", "x-forwarded-uri",      "x-host",        "x-original-host", "x-original-url",
    "x-original-uri", "x-rewrite-url",    "x-http-host-override", "x-rewrite-uri", "x-override-url"};
// Names of another method.
constexpr std::array<std::string_view, 5> overriding_headers = {
    "x-http-method-override", "x-http-method", "x-method-override", "x-method", "http-method-override"};
constexpr std::array<std::string_view, 3> reading_methods = {"get", "head", "options"};
constexpr std::array<std::string_view, 4> writing_methods = {"post", "put", "patch", "delete"};

bool is_in(const auto& words, std::string_view word) { return std::ranges::find(words, word) != words.end(); }

bool is_header_name(std::string_view name) {
  constexpr std::string_view symbols = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || symbols.contains(c);
  });
}

// Whether a server may execute another method than the one that is judged. One that only reads is less than that.
bool overrides_method(std::string_view name, std::string_view value, std::string_view method) {
  const auto first = value.find_first_not_of(" \t");
  if (first == value.npos) return false;
  const std::string other = lower_case(value.substr(first, value.find_last_not_of(" \t") - first + 1));
  if (other == lower_case(method) || is_in(reading_methods, other)) return false;
  return is_in(overriding_headers, name) || (name.contains("method") && is_in(writing_methods, other));
}

}  // namespace

bool is_header_value(std::string_view value) {
  return std::ranges::none_of(value, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

std::optional<std::string> header_problem(std::string_view name, std::string_view value, std::string_view method) {
  if (!is_header_name(name) || !is_header_value(value)) return "must map header names to one line each";
  // As servers see it that make no difference between `-` and `_`.
  std::string plain = lower_case(name);
  std::ranges::replace(plain, '_', '-');
  if (is_in(fixed_headers, plain)) return fmt::format("must not set {}", name);
  if (is_in(diverting_headers, plain)) return fmt::format("must not set {}: the request goes where `url` says", name);
  if (overrides_method(plain, value, method))
    return fmt::format("must not name another method in {}; write it as `method`", name);
  return std::nullopt;
}

}  // namespace pawl
