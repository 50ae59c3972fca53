// A response's head as text.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "http/message.h"

namespace pawl::http {

struct HeadFraming {
  std::optional<std::size_t> length;  // none: no body, or one that ends with the connection
  std::string_view connection;        // the header's value; empty: no header
  std::string_view date;
  std::string_view request_id;  // empty: no header
};

// Nobody on the way may keep an answer (Cache-Control: no-store) unless the response says otherwise. Characters that
// would begin another header are dropped from names and values.
void append_head(std::string& out, const Response& response, const HeadFraming& framing);

// The Date header's value, made once a second. For one thread.
class DateText {
 public:
  std::string_view now();

 private:
  std::time_t second_ = -1;
  std::string text_;
};

}  // namespace pawl::http
