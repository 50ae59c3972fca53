// One spelling per URL. A URL is normalised before anybody judges it, and what is judged is sent as it is, byte for
// byte: libcurl and the server must not read another address out of it than a policy did.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "tools/http_address.h"

namespace pawl {

// The one spelling of an http or https URL, or why there is none:
//   - scheme and host in lower case, an international name in its ASCII form, no default port, no dot after the host;
//   - percent-encoding only where it is needed, in capital letters; what must be encoded is;
//   - no `.` or `..` in the path: they are resolved; a path that would have them only after the server decodes it once
//     more is refused, because servers differ in what they make of it;
//   - no fragment, which is never sent.
// Refused: a user name or password (they belong into a header), control characters, backslashes, IPv4 addresses that
// are not written as four decimal numbers, IPv6 zones. The result is its own one spelling.
std::expected<std::string, std::string> normalize_url(std::string_view url);

// The same of a template whose only expressions name secrets or a response. They may stand behind the host only, or be
// the whole URL.
std::expected<std::string, std::string> normalize_url_template(std::string_view url);

// What people and policies know the target of a request by: a normalised URL, or a template of one, without its query.
std::string url_without_query(std::string_view url);

// Scheme, host and port: what may stand in a message, and what a redirect must keep to be trusted with headers.
// Nothing when the URL cannot be read.
struct Origin {
  std::string scheme;
  HostPort server;

  std::string str() const;
  friend bool operator==(const Origin&, const Origin&) = default;
};
std::optional<Origin> origin_of(const std::string& url);

}  // namespace pawl
