#include "tools/message_id.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>

#include "core/json.h"

namespace pawl {
namespace {

constexpr std::size_t id_chars_max = 256;

boost::json::parse_options options() {
  boost::json::parse_options out;
  out.max_depth = json_depth_max;
  return out;
}

}  // namespace

struct MessageIdFinder::State {
  // What the parser says as it reads. Everything but the id is passed over, and nothing of it is kept.
  struct Handler {
    using error_code = boost::system::error_code;
    using text = boost::json::string_view;
    constexpr static std::size_t max_object_size = static_cast<std::size_t>(-1);
    constexpr static std::size_t max_array_size = static_cast<std::size_t>(-1);
    constexpr static std::size_t max_key_size = static_cast<std::size_t>(-1);
    constexpr static std::size_t max_string_size = static_cast<std::size_t>(-1);

    bool on_document_begin(error_code&) { return true; }
    bool on_document_end(error_code&) { return true; }
    bool on_object_begin(error_code&) { return enter(); }
    bool on_object_end(std::size_t, error_code&) { return leave(); }
    bool on_array_begin(error_code&) { return enter(); }
    bool on_array_end(std::size_t, error_code&) { return leave(); }
    bool on_key_part(text part, std::size_t, error_code&) { return add(key, part); }
    bool on_key(text part, std::size_t, error_code&) {
      add(key, part);
      is_id = depth == 1 && key == "id";
      key.clear();
      return true;
    }
    bool on_string_part(text part, std::size_t, error_code&) { return !is_id || add(string, part); }
    bool on_string(text part, std::size_t size, error_code&) {
      if (!is_id) return true;
      add(string, part);
      // Half an id would be another one.
      if (size <= id_chars_max) take(Json(string));
      return true;
    }
    bool on_number_part(text, error_code&) { return true; }
    bool on_int64(std::int64_t value, text, error_code&) { return take(value); }
    bool on_uint64(std::uint64_t value, text, error_code&) { return take(value); }
    bool on_double(double value, text, error_code&) { return take(value); }
    bool on_bool(bool, error_code&) { return pass(); }
    bool on_null(error_code&) { return pass(); }
    bool on_comment_part(text, error_code&) { return true; }
    bool on_comment(text, error_code&) { return true; }

    bool enter() {
      ++depth;
      return pass();
    }
    bool leave() {
      --depth;
      return true;
    }
    bool pass() {
      is_id = false;
      return true;
    }
    bool take(Json value) {
      if (is_id) id = boost::json::serialize(value);
      return pass();
    }
    static bool add(std::string& to, text part) {
      if (to.size() < id_chars_max) to.append(part.data(), std::min(part.size(), id_chars_max));
      return true;
    }

    int depth = 0;
    bool is_id = false;  // the value that comes next
    std::string key;
    std::string string;
    std::string id = "null";
  };

  boost::json::basic_parser<Handler> parser{options()};
  boost::system::error_code problem;
};

MessageIdFinder::MessageIdFinder() : state_(std::make_unique<State>()) {}
MessageIdFinder::MessageIdFinder(MessageIdFinder&&) noexcept = default;
MessageIdFinder& MessageIdFinder::operator=(MessageIdFinder&&) noexcept = default;
MessageIdFinder::~MessageIdFinder() = default;

void MessageIdFinder::feed(std::string_view bytes) {
  if (state_->problem || state_->parser.done() || bytes.empty()) return;
  state_->parser.write_some(true, bytes.data(), bytes.size(), state_->problem);
}

std::string MessageIdFinder::id() const { return state_->parser.handler().id; }

}  // namespace pawl
