#include "cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace pawl {
namespace {

constexpr std::string_view alternate_screen = "\x1b[?1049h\x1b[?25l\x1b[H";
constexpr std::string_view usual_screen = "\x1b[?25h\x1b[?1049l";

// Set before `changed` and not touched while it is true.
termios original;
std::atomic<bool> changed = false;
std::atomic<bool> alternate = false;

std::string_view terminal_variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// A locale that is not set says nothing; nearly every terminal speaks UTF-8 now. One that names another set means it.
bool speaks_unicode() {
  if (terminal_variable("TERM") == "linux") return false;  // the console's font has few of our signs
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value(terminal_variable(name));
    if (value.empty()) continue;
    std::ranges::transform(value, value.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    return value.find("utf-8") != value.npos || value.find("utf8") != value.npos;
  }
  return true;
}

// In the background, touching the terminal would stop the whole process.
bool in_foreground() { return ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

}  // namespace

TerminalTraits terminal_traits(bool no_colour) {
  std::string_view term = terminal_variable("TERM");
  bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  TerminalTraits out;
  out.can_move = is_terminal && !term.empty() && term != "dumb";
  out.can_ask = is_terminal && in_foreground();
  out.look.colour = out.can_move && !no_colour && terminal_variable("NO_COLOR").empty();
  out.look.unicode = speaks_unicode();
  return out;
}

TerminalSize terminal_size() {
  winsize size{};
  TerminalSize out;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return out;
  out.columns = size.ws_col;
  out.rows = size.ws_row;
  return out;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    auto written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return false;
      pollfd waits{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&waits, 1, -1);
      continue;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

KeyMode::KeyMode() { enter(); }
KeyMode::~KeyMode() { leave(); }

void KeyMode::enter() {
  if (changed || !in_foreground() || ::tcgetattr(STDIN_FILENO, &original) != 0) return;
  termios keys = original;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  keys.c_cc[VMIN] = 1;
  keys.c_cc[VTIME] = 0;
  changed = true;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
  write_all(STDOUT_FILENO, hide_cursor);
}

void KeyMode::leave() { restore_terminal(); }

void AlternateScreen::enter() {
  if (!alternate.exchange(true)) write_all(STDOUT_FILENO, alternate_screen);
}
void AlternateScreen::leave() {
  if (alternate.exchange(false)) write_all(STDOUT_FILENO, usual_screen);
}

void restore_terminal() {
  if (alternate.exchange(false)) write_all(STDOUT_FILENO, usual_screen);
  if (!changed.exchange(false)) return;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &original);
  write_all(STDOUT_FILENO, show_cursor);
}

}  // namespace pawl
