// A whole connection, over a socket pair and without threads: HTTP/1.1 requests, one after the other, perhaps a
// channel. What the handler is asked, and what the client is answered, must not depend on how the bytes came in pieces:
// where it does, a proxy in front of this server sees other requests than the server.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "fuzz.h"
#include "http/loop.h"

namespace pawl::fuzz {
namespace {

using namespace http;

std::string described(const Request& request) {
  std::string out = std::to_string(static_cast<int>(request.method)) + " " + request.path + "?" + request.query + "\n";
  for (const auto& [name, value] : request.headers) out += name + "=" + value + "\n";
  return out + request.body + (request.wants_websocket ? "\nwebsocket\n" : "\n");
}

// Answers in every way there is, as the path says.
class EveryAnswer : public Handler {
 public:
  std::string asked;  // all requests, described

  void handle(Request request, Responder respond) override {
    asked += described(request);
    if (request.path == "/throw") throw std::runtime_error("as asked");
    if (request.path == "/drop") return;
    if (request.path == "/none")
      return respond({.status = 204, .content_type = {}, .body = {}, .headers = {}, .stream = {}});
    Response response{.status = 200, .content_type = "text/plain", .body = request.body, .headers = {}, .stream = {}};
    if (request.path == "/header") response.headers.emplace_back("X-Query", request.query);
    if (request.path == "/events")
      response.stream = [](std::shared_ptr<Channel> channel) {
        channel->push(std::make_shared<Channel::Message>(Channel::Message{"1.1", "{\"a\":\n1}"}));
      };
    respond(std::move(response));
  }
  Response refuse(int status, std::string_view code, std::string_view detail) override {
    check(status >= 400 && !code.empty() && !detail.empty(), "a refusal says why");
    return {.status = status, .content_type = "text/plain", .body = std::string(code), .headers = {}, .stream = {}};
  }
};

struct Conversation {
  std::string asked;
  std::string answered;
};

class Peer {
 public:
  Peer() {
    check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_) == 0, "there are sockets");
  }
  ~Peer() { ::close(ends_[0]); }

  int other_end() const { return ends_[1]; }
  void send(std::string_view bytes) {
    [[maybe_unused]] auto sent = ::send(ends_[0], bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void end() { ::shutdown(ends_[0], SHUT_WR); }
  // False at the server's end.
  bool receive(std::string& into) {
    char bytes[4096];
    for (;;) {
      const auto got = ::recv(ends_[0], bytes, sizeof bytes, 0);
      if (got <= 0) return got < 0;
      into.append(bytes, static_cast<std::size_t>(got));
    }
  }

 private:
  int ends_[2];
};

// Small limits, so that short inputs reach them.
ServerOptions small_limits() {
  ServerOptions options;
  options.header_bytes_max = 512;
  options.body_bytes_max = 256;
  options.origins = {"https://ops.example"};
  return options;
}

Conversation converse(std::string_view input, std::size_t piece) {
  EveryAnswer handler;
  ServerState server{.options = small_limits(), .handler = handler};
  Conversation out;
  {
    Peer peer;
    Loop loop;
    Socket socket(loop.context);
    socket.assign(tcp::v4(), peer.other_end());
    ++server.open;
    asio::co_spawn(loop.context, serve_connection(server, loop, std::move(socket)), asio::detached);
    const auto go_on = [&] {
      while (loop.context.poll() > 0) {
      }
    };
    go_on();
    for (std::size_t at = 0; at < input.size(); at += piece) {
      peer.send(input.substr(at, piece));
      go_on();
      peer.receive(out.answered);
    }
    peer.end();
    go_on();
    check(!peer.receive(out.answered), "a connection whose client has gone ends");
    check(server.is_empty(), "a connection that has ended is not counted");
    check(server.buffered_bytes == 0, "what was buffered is let go");
    loop.abort();
    go_on();
  }
  out.asked = std::move(handler.asked);
  return out;
}

std::string_view take_line(std::string_view& text) {
  const auto end = text.find("\r\n");
  check(end != std::string_view::npos, "a line ends");
  const auto line = text.substr(0, end);
  check(line.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos, "a line is one line");
  text.remove_prefix(end + 2);
  return line;
}

struct Answer {
  int status = 0;
  std::string text;  // without what may differ from one time to the next
};

// The frames that a channel sent, each whole and unmasked; or the lines of its events.
void check_channel(std::string_view sent, bool websocket) {
  if (!websocket) return check(sent.empty() || sent.ends_with("\n\n"), "an event is whole");
  while (!sent.empty()) {
    check(sent.size() >= 2 && (sent[0] & 0x80) && (sent[0] & 0x70) == 0, "a frame is final and plain");
    const auto size = static_cast<unsigned char>(sent[1]);
    check(size <= 125 && size + 2u <= sent.size(), "a frame is as long as it says, and not masked");
    sent.remove_prefix(size + 2u);
  }
}

Answer take_answer(std::string_view& text) {
  const auto line = take_line(text);
  check(line.size() > 13 && line.starts_with("HTTP/1.1 ") && line[12] == ' ', "an answer has a status");
  Answer answer{std::stoi(std::string(line.substr(9, 3))), std::string(line)};
  std::optional<std::size_t> length;
  bool channel = answer.status == 101;
  for (auto header = take_line(text); !header.empty(); header = take_line(text)) {
    const auto colon = header.find(": ");
    check(colon != std::string_view::npos && colon > 0, "a header has a name");
    const auto name = header.substr(0, colon);
    const auto value = header.substr(colon + 2);
    if (name == "Content-Length") length = std::stoul(std::string(value));
    if (value == "text/event-stream") channel = true;
    if (name != "Date" && name != "X-Request-Id") (answer.text += '\n') += header;
  }
  if (channel) {
    check_channel(text, answer.status == 101);
    text = {};
  }
  // The answer to HEAD has a length and no body; what follows then is the next answer, or nothing.
  if (!length || text.empty() || text.starts_with("HTTP/1.1 ")) return answer;
  check(*length <= text.size(), "an answer is as long as it says");
  (answer.text += '\n') += text.substr(0, *length);
  text.remove_prefix(*length);
  return answer;
}

struct Said {
  std::string asked;
  // All answers but the last when that refuses to read on: it depends on the pieces when, and by which of its faults, a
  // request is seen to be broken. So does whether a client has to be told to go on with its body.
  std::string answers;
  bool at_limit = false;  // that refusal was for the size of the headers
};

Said read_conversation(Conversation conversation) {
  Said said{.asked = std::move(conversation.asked)};
  for (std::string_view text = conversation.answered; !text.empty();) {
    const Answer answer = take_answer(text);
    const bool refusal = answer.status >= 400 && answer.status != 500 && answer.status != 503;
    check(!refusal || text.empty(), "nothing follows a refusal");
    said.at_limit = answer.status == 431;
    if (answer.status != 100 && !refusal) (said.answers += answer.text) += '\n';
  }
  return said;
}

// Headers are measured differently in pieces: those that come near the limit may pass in one way and not in another.
// What came before them is the same.
void check_same(std::string_view a, std::string_view b, bool at_limit, const char* property) {
  const auto size = at_limit ? std::min(a.size(), b.size()) : std::string_view::npos;
  check_equal(a.substr(0, size), b.substr(0, size), property);
}

}  // namespace

FUZZ_TARGET(connection) {
  if (input.size() > 16 << 10) return;  // more than the socket pair surely holds
  const auto whole = read_conversation(converse(input, input.size() + 1));
  // Byte by byte as long as that takes no time.
  for (const std::size_t piece : {1 + input.size() / 256, 1 + input.size() / 7}) {
    const auto pieces = read_conversation(converse(input, piece));
    const bool at_limit = whole.at_limit || pieces.at_limit;
    check_same(pieces.asked, whole.asked, at_limit, "pieces change no request");
    check_same(pieces.answers, whole.answers, at_limit, "pieces change no answer");
  }
}

}  // namespace pawl::fuzz
