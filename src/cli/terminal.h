// The terminal: what it can do, how large it is, and a mode in which single keys arrive. Whatever is changed is put
// back, also when the process ends in a hurry.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "cli/text.h"

namespace pawl {

inline constexpr std::string_view hide_cursor = "\x1b[?25l";
inline constexpr std::string_view show_cursor = "\x1b[?25h";

struct TerminalTraits {
  Look look;
  bool can_move = false;  // stdout is a terminal that takes cursor movements
  bool can_ask = false;   // and a person sits at it
};

// From the file descriptors, TERM, NO_COLOR and the locale's character set.
TerminalTraits terminal_traits(bool no_colour);

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};
TerminalSize terminal_size();

// All of it, whatever write() takes at once. False when nobody reads any more.
bool write_all(int fd, std::string_view bytes);

// While it lives: no cursor, no echo, keys arrive one by one. Ctrl-C still interrupts.
class KeyMode {
 public:
  KeyMode();
  KeyMode(const KeyMode&) = delete;
  KeyMode& operator=(const KeyMode&) = delete;
  ~KeyMode();

  // Around a stop of the process (Ctrl-Z).
  void leave();
  void enter();
};

// While it lives: a screen of its own; the one before comes back with all that stood on it.
class AlternateScreen {
 public:
  AlternateScreen() { enter(); }
  AlternateScreen(const AlternateScreen&) = delete;
  AlternateScreen& operator=(const AlternateScreen&) = delete;
  ~AlternateScreen() { leave(); }

  void leave();
  void enter();
};

// For those who end the process without unwinding. May be called at any time, from any thread.
void restore_terminal();

}  // namespace pawl
