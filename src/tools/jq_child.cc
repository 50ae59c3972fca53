#include "tools/jq_child.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <list>
#include <string>

#include "process/sanitized.h"

extern "C" {
#include <jq.h>
#include <jv.h>
}

namespace pawl {
namespace {

constexpr std::size_t programs_kept_max = 16;
constexpr std::size_t jq_message_bytes_max = 1500;

// The shadow memory of sanitizers is counted too, and is terabytes.
constexpr bool memory_can_be_limited = !is_sanitized;

bool read_all(void* into, std::size_t bytes) {
  auto* at = static_cast<char*>(into);
  while (bytes > 0) {
    const auto got = ::read(STDIN_FILENO, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const auto put = ::write(STDOUT_FILENO, at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
  return true;
}

bool answer(JqReply::Kind kind, std::string_view text, std::uint32_t count = 0) {
  const JqReply reply{.kind = kind, .count = count, .text_bytes = static_cast<std::uint32_t>(text.size())};
  return write_all(&reply, sizeof reply) && write_all(text.data(), text.size());
}

// libjq calls this instead of returning; there is nothing left to clean up with.
void out_of_memory(void*) {
  answer(JqReply::Kind::out_of_memory, "");
  ::_exit(0);
}

// A jv is freed by whichever function it is passed to, hence no destructor here.
std::string text_of(jv value) {
  jv text = jv_get_kind(value) == JV_KIND_STRING ? value : jv_dump_string(value, 0);
  std::string result(jv_string_value(text), static_cast<std::size_t>(jv_string_length_bytes(jv_copy(text))));
  jv_free(text);
  return result;
}

// jq says "jq: error: foo/0 is not defined at <top-level>, line 1:", the line, and "jq: 1 compile error".
std::string tidied(std::string message) {
  constexpr std::string_view prefix = "jq: error: ";
  if (message.starts_with(prefix)) message.erase(0, prefix.size());
  if (const auto last = message.rfind("\njq: "); last != std::string::npos && message.ends_with("compile error"))
    message.erase(last);
  // Nobody quotes for a shell here.
  constexpr std::string_view advice = " (Unix shell quoting issues?)";
  if (const auto at = message.find(advice); at != std::string::npos) message.erase(at, advice.size());
  if (message.size() > jq_message_bytes_max) message.resize(jq_message_bytes_max);
  return message;
}

struct Outcome {
  JqReply::Kind kind = JqReply::Kind::results;
  std::string text;
  std::uint32_t count = 0;
};

class JqProgram {
 public:
  explicit JqProgram(std::string text) : text_(std::move(text)), jq_(jq_init()) {
    if (!jq_) out_of_memory(nullptr);
    jq_set_nomem_handler(jq_, out_of_memory, nullptr);
    jq_set_error_cb(
        jq_, [](void* self, jv message) { static_cast<JqProgram*>(self)->hear(message); }, this);
    compiled_ = !text_.contains('\0') && jq_compile(jq_, text_.c_str()) != 0;
    if (!compiled_ && message_.empty()) message_ = "does not compile";
  }
  ~JqProgram() { jq_teardown(&jq_); }
  JqProgram(const JqProgram&) = delete;

  const std::string& text() const { return text_; }

  Outcome compile() const { return compiled_ ? Outcome() : Outcome{JqReply::Kind::error, tidied(message_)}; }

  Outcome run(const std::string& input, std::size_t output_bytes_max) {
    if (!compiled_) return compile();
    jv value = jv_parse_sized(input.data(), static_cast<int>(input.size()));
    if (!jv_is_valid(value)) return {JqReply::Kind::error, message_of(value)};
    jq_start(jq_, value, 0);
    Outcome outcome;
    for (;;) {
      jv result = jq_next(jq_);
      if (!jv_is_valid(result)) return ended(result, std::move(outcome));
      jv text = jv_dump_string(result, 0);
      if (outcome.count++ > 0) outcome.text += ',';
      outcome.text.append(jv_string_value(text), static_cast<std::size_t>(jv_string_length_bytes(jv_copy(text))));
      jv_free(text);
      if (outcome.text.size() > output_bytes_max) return {JqReply::Kind::output_too_large, ""};
    }
  }

 private:
  void hear(jv message) {
    if (!message_.empty()) message_ += '\n';
    message_ += text_of(message);
  }

  static std::string message_of(jv invalid) { return tidied(text_of(jv_invalid_get_msg(invalid))); }

  // No more results: the end, an error, or `halt_error`.
  Outcome ended(jv last, Outcome outcome) {
    if (jv_invalid_has_msg(jv_copy(last))) return {JqReply::Kind::error, message_of(last)};
    jv_free(last);
    if (!jq_halted(jq_)) return outcome;
    jv message = jq_get_error_message(jq_);
    if (jv_is_valid(message)) return {JqReply::Kind::error, tidied(text_of(message))};
    jv_free(message);
    return outcome;
  }

  std::string text_;
  jq_state* jq_ = nullptr;
  bool compiled_ = false;
  std::string message_;
};

// Compiling costs tens of milliseconds, for jq compiles its own library each time; running often less than one.
class JqPrograms {
 public:
  JqProgram& find(std::string text) {
    for (auto it = recent_.begin(); it != recent_.end(); ++it) {
      if (it->text() != text) continue;
      recent_.splice(recent_.begin(), recent_, it);
      return recent_.front();
    }
    if (recent_.size() == programs_kept_max) recent_.pop_back();
    return recent_.emplace_front(std::move(text));
  }
  void forget_latest() { recent_.pop_front(); }

 private:
  std::list<JqProgram> recent_;
};

void limit(__rlimit_resource_t resource, rlim_t most) {
  const rlimit both{.rlim_cur = most, .rlim_max = most};
  ::setrlimit(resource, &both);
}

// The environment is empty already: the pool gives none. With no descriptor left to open, `import "x" as $x {search:
// "/etc"}` finds nothing, whatever jq's linker tries.
void forbid_files() {
  limit(RLIMIT_NOFILE, 3);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_CORE, 0);
}

// ITIMER_PROF counts user and system time of this process and its signal kills by default: it also ends a helper whose
// parent was killed while a program loops.
void set_cpu_timer(std::uint32_t milliseconds) {
  itimerval timer{};
  timer.it_value.tv_sec = milliseconds / 1000;
  timer.it_value.tv_usec = static_cast<suseconds_t>(milliseconds % 1000) * 1000;
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

}  // namespace

int jq_child_main() {
  forbid_files();
  JqPrograms programs;
  JqRequest request;
  while (read_all(&request, sizeof request)) {
    if (memory_can_be_limited) limit(RLIMIT_DATA, request.memory_bytes_max);
    set_cpu_timer(request.cpu_ms_max);
    std::string program(request.program_bytes, '\0');
    std::string input(request.input_bytes, '\0');
    if (!read_all(program.data(), program.size()) || !read_all(input.data(), input.size())) break;
    Outcome outcome;
    try {
      JqProgram& found = programs.find(std::move(program));
      outcome = request.compiles_only ? found.compile() : found.run(input, request.output_bytes_max);
    } catch (const std::bad_alloc&) {
      out_of_memory(nullptr);
    }
    // What a program that failed leaves behind in its state is not documented.
    if (outcome.kind != JqReply::Kind::results) programs.forget_latest();
    set_cpu_timer(0);
    if (!answer(outcome.kind, outcome.text, outcome.count)) break;
  }
  return 0;
}

}  // namespace pawl
