#include "tools/http_url.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <idn2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "core/characters.h"
#include "core/expression.h"

namespace pawl {
namespace {

constexpr std::size_t url_bytes_max = 16 << 10;
constexpr int decodings_max = 8;

using Reason = std::unexpected<std::string>;
Reason refuse(std::string reason) { return std::unexpected(std::move(reason)); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_unreserved(char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_' || c == '~'; }

std::optional<int> hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// The byte that `%XX` at this place stands for.
std::optional<char> encoded_byte(std::string_view text, std::size_t at) {
  if (at + 2 >= text.size() || text[at] != '%') return std::nullopt;
  const auto high = hex_digit(text[at + 1]), low = hex_digit(text[at + 2]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high * 16 + *low);
}

void append_encoded(std::string& out, char c) { out += fmt::format("%{:02X}", static_cast<unsigned char>(c)); }

// Encodes what is neither unreserved nor one of `kept`; decodes what need not be encoded.
std::string with_one_encoding(std::string_view text, std::string_view kept) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (const auto byte = encoded_byte(text, i)) {
      if (is_unreserved(*byte))
        out += *byte;
      else
        append_encoded(out, *byte);
      i += 2;
    } else if (is_unreserved(text[i]) || kept.contains(text[i])) {
      out += text[i];
    } else {
      append_encoded(out, text[i]);
    }
  }
  return out;
}

std::string decoded_once(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = encoded_byte(text, i);
    out += byte.value_or(text[i]);
    if (byte) i += 2;
  }
  return out;
}

// What some servers take for one of these, and what it is then: forms of UTF-8 that are too long, and characters that
// look like them or that they stand for.
struct Lookalike {
  std::string_view bytes;
  std::string_view means;
};
constexpr std::array lookalikes = {
    Lookalike{"\xc0\xae", "."},     Lookalike{"\xe0\x80\xae", "."}, Lookalike{"\xf0\x80\x80\xae", "."},
    Lookalike{"\xc0\xaf", "/"},     Lookalike{"\xe0\x80\xaf", "/"}, Lookalike{"\xf0\x80\x80\xaf", "/"},
    Lookalike{"\xc1\x9c", "/"},     Lookalike{"\xe0\x81\x9c", "/"}, Lookalike{"\xf0\x80\x81\x9c", "/"},
    Lookalike{"\xef\xbc\x8e", "."}, Lookalike{"\xe2\x80\xa4", "."}, Lookalike{"\xe2\x80\xa5", ".."},
    Lookalike{"\xef\xbc\x8f", "/"}, Lookalike{"\xef\xbc\xbc", "/"}, Lookalike{"\xe2\x81\x84", "/"},
    Lookalike{"\xe2\x88\x95", "/"}, Lookalike{"%u002e", "."},       Lookalike{"%u002f", "/"},
    Lookalike{"%u005c", "/"},       Lookalike{"%uff0e", "."},       Lookalike{"%uff0f", "/"}};

std::string without_lookalikes(std::string text) {
  for (const auto& [bytes, means] : lookalikes)
    for (auto at = text.find(bytes); at != text.npos; at = text.find(bytes, at)) text.replace(at, bytes.size(), means);
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = text.find_first_of(separators);
    out.push_back(text.substr(0, end));
    if (end == text.npos) return out;
    text.remove_prefix(end + 1);
  }
}

// Without blanks and control characters at its ends, which some servers drop.
std::string_view without_outer_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Servers differ in how often they decode, whether a backslash separates, whether `;` ends a segment, and whether a
// decoded `?` or `#` ends the path.
bool has_hidden_dots(std::string_view segment) {
  std::string text(segment);
  for (int round = 0; round < decodings_max; ++round) {
    const std::string seen = without_lookalikes(lower_case(text));
    for (const std::string_view part : split(seen, "/\\")) {
      const std::string_view name = without_outer_blanks(part.substr(0, part.find_first_of(";?#")));
      if (name == "." || name == "..") return true;
    }
    std::string decoded = decoded_once(text);
    if (decoded == text) return false;
    text = std::move(decoded);
  }
  return true;  // nobody encodes so often for a good reason
}

// RFC 3986, 5.2.4, of a path that begins with a slash.
std::expected<std::string, std::string> normalize_path(std::string_view path) {
  const std::string encoded = with_one_encoding(path, "!$&'()*+,;=:@/");
  std::vector<std::string_view> kept;
  bool is_folder = false;
  for (const std::string_view segment : split(std::string_view(encoded).substr(1), "/")) {
    is_folder = segment == "." || segment == "..";
    if (segment == ".." && !kept.empty()) kept.pop_back();
    if (is_folder) continue;
    if (has_hidden_dots(segment))
      return refuse("has a path in which `.` or `..` is hidden by its encoding; write the path that is meant");
    if (segment.contains("%00")) return refuse("has an encoded NUL in its path");
    kept.push_back(segment);
  }
  std::string out;
  for (const std::string_view segment : kept) out.append("/").append(segment);
  if (is_folder || out.empty()) out += '/';
  return out;
}

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};

std::optional<std::string> ascii_host(const std::string& host) {
  char* text = nullptr;
  if (idn2_to_ascii_8z(host.c_str(), &text, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) != IDN2_OK) return std::nullopt;
  std::string out(text);
  idn2_free(text);
  return out;
}

std::expected<std::string, std::string> normalize_address_v6(const std::string& text) {
  in6_addr address{};
  std::array<char, INET6_ADDRSTRLEN> out{};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1 || !inet_ntop(AF_INET6, &address, out.data(), out.size()))
    return refuse("has a host in brackets that is not an IPv6 address");
  return "[" + std::string(out.data()) + "]";
}

std::expected<std::string, std::string> normalize_host(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']'))
    return normalize_address_v6(std::string(text.substr(1, text.size() - 2)));
  std::string host(text);
  if (std::ranges::any_of(host, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) {
    auto ascii = ascii_host(host);
    if (!ascii) return refuse("has an international host name that cannot be written in ASCII");
    host = std::move(*ascii);
  }
  host = lower_case(host);
  if (host.ends_with('.')) host.pop_back();
  const auto labels = split(host, ".");
  for (const std::string_view label : labels)
    if (label.empty() ||
        !std::ranges::all_of(label, [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; }))
      return refuse("has no valid host name");
  // The forms that libcurl and resolvers take for numbers: 127.1, 0x7f000001, 2130706433.
  const std::string_view last = labels.back();
  in_addr address{};
  if ((std::ranges::all_of(last, is_digit) || last.starts_with("0x")) &&
      inet_pton(AF_INET, host.c_str(), &address) != 1)
    return refuse("has a host that is a number; write an IPv4 address as four decimal numbers");
  return host;
}

std::expected<std::string, std::string> normalize_authority(std::string_view text, std::string_view scheme) {
  if (text.contains('@')) return refuse("must not have a user name or password; send them in the header Authorization");
  const std::size_t after_address = text.starts_with('[') ? std::min(text.find(']'), text.size()) : 0;
  const std::size_t colon = text.find(':', after_address);
  auto host = normalize_host(text.substr(0, colon));
  if (!host || colon == text.npos || colon + 1 == text.size()) return host;
  const std::string_view digits = text.substr(colon + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (!is_digit(digits[0]) || error != std::errc() || end != digits.data() + digits.size() || port < 1 || port > 65535)
    return refuse("has a port that is not a number from 1 to 65535");
  if (port == (scheme == "https" ? 443 : 80)) return host;
  return *host + ":" + std::to_string(port);
}

}  // namespace

std::expected<std::string, std::string> normalize_url(std::string_view url) {
  if (url.size() > url_bytes_max) return refuse(fmt::format("is longer than {} bytes", url_bytes_max));
  for (const char c : url) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return refuse("must not have control characters");
    if (c == '\\') return refuse("must not have a backslash; a path is written with slashes");
  }
  std::string scheme;
  for (const std::string_view known : {"http", "https"})
    if (lower_case(url.substr(0, known.size() + 3)) == std::string(known) + "://") scheme = known;
  if (scheme.empty()) return refuse("must be an http or https URL");
  std::string_view rest = url.substr(scheme.size() + 3);
  rest = rest.substr(0, rest.find('#'));
  const std::size_t authority_end = std::min(rest.find_first_of("/?"), rest.size());
  auto authority = normalize_authority(rest.substr(0, authority_end), scheme);
  if (!authority) return authority;
  rest.remove_prefix(authority_end);
  const std::size_t path_end = std::min(rest.find('?'), rest.size());
  auto path = normalize_path(path_end == 0 ? "/" : rest.substr(0, path_end));
  if (!path) return path;
  std::string out = scheme + "://" + *authority + *path;
  if (path_end < rest.size()) out += "?" + with_one_encoding(rest.substr(path_end + 1), "!$&'()*+,;=:@/?[]");
  return out;
}

std::expected<std::string, std::string> normalize_url_template(std::string_view url) {
  const auto pieces = parse_template(url);
  if (!pieces) return refuse("has an expression that cannot be read: " + pieces.error().reason);
  if (pieces->size() == 1)
    if (const auto* whole = std::get_if<Expression>(&pieces->front())) return print_expression(*whole);
  // Each expression is a word that normalising leaves alone, and that the text does not have.
  std::string word = "secret";
  while (url.contains(word)) word += "x";
  std::string text;
  for (const auto& piece : *pieces) {
    const auto* literal = std::get_if<std::string>(&piece);
    text += literal ? *literal : word;
  }
  auto normal = normalize_url(text);
  if (!normal) return normal;
  std::string out;
  std::string_view rest = *normal;
  for (const auto& piece : *pieces) {
    const auto* expression = std::get_if<Expression>(&piece);
    if (!expression) continue;
    const std::size_t at = rest.find(word);
    const std::size_t host_end = normal->find('/', normal->find("://") + 3);
    if (at == rest.npos || normal->size() - rest.size() + at < host_end)
      return refuse("may have expressions only behind its host");
    out += template_of(rest.substr(0, at));
    out += print_expression(*expression);
    rest.remove_prefix(at + word.size());
  }
  return out + template_of(rest);
}

std::string url_without_query(std::string_view url) { return std::string(url.substr(0, url.find('?'))); }

std::string Origin::str() const { return fmt::format("{}://{}:{}", scheme, server.host, server.port); }

std::optional<Origin> origin_of(const std::string& url) {
  const std::unique_ptr<CURLU, UrlDeleter> parsed(curl_url());
  if (!parsed) throw std::bad_alloc();
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return std::nullopt;
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    std::string result;
    if (curl_url_get(parsed.get(), which, &text, CURLU_DEFAULT_PORT) == CURLUE_OK) result = text;
    curl_free(text);
    return result;
  };
  const auto scheme = part(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return std::nullopt;
  return Origin{.scheme = scheme,
                .server = {.host = lower_case(part(CURLUPART_HOST)), .port = std::stoi("0" + part(CURLUPART_PORT))}};
}

}  // namespace pawl
