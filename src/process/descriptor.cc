#include "process/descriptor.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace pawl {
namespace {

constexpr int first_free_fd = 3;

[[noreturn]] void broken(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

Descriptor above_standard(Descriptor given) {
  if (given.get() >= first_free_fd) return given;
  // pawl was started with stdin, stdout or stderr closed. dup2 of such a number onto itself in a child would leave it
  // close-on-exec.
  Descriptor moved(::fcntl(given.get(), F_DUPFD_CLOEXEC, first_free_fd));
  if (!moved.is_open()) broken("fcntl");
  return moved;
}

void set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) broken("fcntl");
}

}  // namespace

void Descriptor::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) broken("pipe2");
  Descriptor reading(ends[0]), writing(ends[1]);
  Pipe made{.read_end = above_standard(std::move(reading)), .write_end = above_standard(std::move(writing))};
  set_nonblocking(made.read_end.get());
  return made;
}

SocketPair make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) broken("socketpair");
  Descriptor first(ends[0]), second(ends[1]);
  SocketPair made{.ours = above_standard(std::move(first)), .theirs = above_standard(std::move(second))};
  set_nonblocking(made.ours.get());
  return made;
}

Descriptor file_in_memory(std::string_view content) {
  const int fd = ::memfd_create("pawl", MFD_CLOEXEC);
  if (fd < 0) broken("memfd_create");
  Descriptor file = above_standard(Descriptor(fd));
  for (std::size_t at = 0; at < content.size();) {
    const auto written = ::pwrite(file.get(), content.data() + at, content.size() - at, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) broken("write to memory");
    at += static_cast<std::size_t>(written);
  }
  return file;
}

Descriptor open_null_device() {
  const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (fd < 0) broken("open /dev/null");
  return above_standard(Descriptor(fd));
}

StopEvent::StopEvent(const std::stop_token& stop)
    : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(stop, Raise{event_.get()}) {
  if (!event_.is_open()) broken("eventfd");
}

void StopEvent::Raise::operator()() const noexcept {
  const std::uint64_t one = 1;
  // Can fail only when the counter is full, and then it is readable already.
  [[maybe_unused]] const auto ignored = ::write(fd, &one, sizeof one);
}

}  // namespace pawl
