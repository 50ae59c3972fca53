// File descriptors that close themselves, and a stop_token that poll() can wait for.
#pragma once

#include <stop_token>
#include <string_view>
#include <utility>

namespace pawl {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

// All of these are close-on-exec and lie above the three standard ones, so that a child can dup2 them into place.
// They throw std::system_error when the process has no descriptors left.
struct Pipe {
  Descriptor read_end;  // does not block
  Descriptor write_end;
};
Pipe make_pipe();

struct SocketPair {
  Descriptor ours;  // does not block
  Descriptor theirs;
};
SocketPair make_socket_pair();

// A file in memory, open at its start.
Descriptor file_in_memory(std::string_view content);
Descriptor open_null_device();

// Readable from the moment that stop is requested.
class StopEvent {
 public:
  explicit StopEvent(const std::stop_token& stop);
  int fd() const { return event_.get(); }

 private:
  struct Raise {
    int fd;
    void operator()() const noexcept;
  };
  Descriptor event_;
  std::stop_callback<Raise> callback_;
};

}  // namespace pawl
