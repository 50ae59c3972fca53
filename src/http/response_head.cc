#include "http/response_head.h"

#include <array>
#include <charconv>

namespace pawl::http {
namespace {

std::string_view reason(int status) {
  switch (status) {
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 507:
      return "Insufficient Storage";
    default:
      return "Status";  // only people read it
  }
}

void append_number(std::string& out, std::size_t number) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_clean(std::string& out, std::string_view text) {
  constexpr std::string_view dangerous{"\r\n\0", 3};
  if (text.find_first_of(dangerous) == std::string_view::npos) {
    out += text;
    return;
  }
  for (const char c : text)
    if (dangerous.find(c) == std::string_view::npos) out += c;
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  append_clean(out, name);
  out += ": ";
  append_clean(out, value);
  out += "\r\n";
}

}  // namespace

void append_head(std::string& out, const Response& response, const HeadFraming& framing) {
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::size_t>(response.status));
  out += ' ';
  out += reason(response.status);
  out += "\r\n";
  if (!response.content_type.empty()) append_header(out, "Content-Type", response.content_type);
  if (framing.length) {
    out += "Content-Length: ";
    append_number(out, *framing.length);
    out += "\r\n";
  }
  out += "Date: ";
  out += framing.date;
  out += "\r\nServer: pawl\r\nX-Content-Type-Options: nosniff\r\n";
  if (!framing.connection.empty()) append_header(out, "Connection", framing.connection);
  if (!framing.request_id.empty()) append_header(out, "X-Request-Id", framing.request_id);
  bool says_cache = false;
  for (const auto& [name, value] : response.headers) {
    says_cache = says_cache || name == "Cache-Control";
    append_header(out, name, value);
  }
  if (!says_cache) out += "Cache-Control: no-store\r\n";
  out += "\r\n";
}

std::string_view DateText::now() {
  const auto second = std::time(nullptr);
  if (second == second_) return text_;
  second_ = second;
  // Not strftime: names of days and months must not follow the locale.
  constexpr std::array days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array months{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm utc{};
  gmtime_r(&second, &utc);
  text_.clear();
  const auto append_two_digits = [this](int number) {
    text_ += static_cast<char>('0' + number / 10 % 10);
    text_ += static_cast<char>('0' + number % 10);
  };
  text_ += days[static_cast<std::size_t>(utc.tm_wday)];
  text_ += ", ";
  append_two_digits(utc.tm_mday);
  text_ += ' ';
  text_ += months[static_cast<std::size_t>(utc.tm_mon)];
  text_ += ' ';
  append_number(text_, static_cast<std::size_t>(utc.tm_year + 1900));
  text_ += ' ';
  append_two_digits(utc.tm_hour);
  text_ += ':';
  append_two_digits(utc.tm_min);
  text_ += ':';
  append_two_digits(utc.tm_sec);
  text_ += " GMT";
  return text_;
}

}  // namespace pawl::http
