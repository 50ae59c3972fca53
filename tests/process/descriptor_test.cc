#include "process/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace pawl {
namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
bool closes_on_exec(const Descriptor& descriptor) { return ::fcntl(descriptor.get(), F_GETFD) & FD_CLOEXEC; }
bool blocks(const Descriptor& descriptor) { return !(::fcntl(descriptor.get(), F_GETFL) & O_NONBLOCK); }

bool is_readable(int fd) {
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&wait, 1, 0) == 1;
}

// What can be read at once.
std::string read_from(const Descriptor& descriptor) {
  char buffer[64];
  const auto got = ::read(descriptor.get(), buffer, sizeof buffer);
  return {buffer, got > 0 ? static_cast<std::size_t>(got) : 0};
}

bool write_to(const Descriptor& descriptor, std::string_view text) {
  return ::write(descriptor.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

TEST(Descriptor, closes_itself_once) {
  int fd = -1;
  {
    Descriptor first = open_null_device();
    fd = first.get();
    Descriptor second(std::move(first));
    EXPECT_FALSE(first.is_open());
    EXPECT_EQ(second.get(), fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, can_be_closed_early_and_again) {
  Descriptor descriptor = open_null_device();
  const int fd = descriptor.get();
  descriptor.close();
  descriptor.close();
  EXPECT_FALSE(descriptor.is_open());
  EXPECT_FALSE(is_open(fd));
}

TEST(Descriptor, of_a_pipe_is_for_us_alone_and_only_its_writer_blocks) {
  const Pipe pipe = make_pipe();
  EXPECT_TRUE(closes_on_exec(pipe.read_end) && closes_on_exec(pipe.write_end));
  EXPECT_FALSE(blocks(pipe.read_end));
  EXPECT_TRUE(blocks(pipe.write_end));
  ASSERT_TRUE(write_to(pipe.write_end, "text"));
  EXPECT_EQ(read_from(pipe.read_end), "text");
}

TEST(Descriptor, of_a_socket_pair_carries_text_both_ways_and_only_theirs_blocks) {
  const SocketPair pair = make_socket_pair();
  EXPECT_TRUE(closes_on_exec(pair.ours) && closes_on_exec(pair.theirs));
  EXPECT_FALSE(blocks(pair.ours));
  EXPECT_TRUE(blocks(pair.theirs));
  ASSERT_TRUE(write_to(pair.ours, "question"));
  EXPECT_EQ(read_from(pair.theirs), "question");
  ASSERT_TRUE(write_to(pair.theirs, "answer"));
  EXPECT_EQ(read_from(pair.ours), "answer");
}

TEST(Descriptor, of_a_file_in_memory_stands_at_its_start) {
  for (const std::string text : {"", "some text"}) {
    const Descriptor file = file_in_memory(text);
    EXPECT_TRUE(closes_on_exec(file));
    EXPECT_EQ(read_from(file), text);
  }
}

TEST(Descriptor, of_the_null_device_takes_everything_and_gives_nothing) {
  const Descriptor null = open_null_device();
  EXPECT_TRUE(closes_on_exec(null));
  EXPECT_TRUE(write_to(null, "text"));
  EXPECT_EQ(read_from(null), "");
}

TEST(Descriptor, is_never_a_standard_one_even_when_those_are_closed) {
  const Descriptor kept(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100));
  ASSERT_TRUE(kept.is_open());
  ::close(STDIN_FILENO);
  const Pipe pipe = make_pipe();
  const SocketPair pair = make_socket_pair();
  const Descriptor file = file_in_memory("text");
  const Descriptor null = open_null_device();
  const bool is_free = !is_open(STDIN_FILENO);
  ::dup2(kept.get(), STDIN_FILENO);
  EXPECT_TRUE(is_free);
  for (const Descriptor* made : {&pipe.read_end, &pipe.write_end, &pair.ours, &pair.theirs, &file, &null}) {
    EXPECT_GT(made->get(), STDERR_FILENO);
    EXPECT_TRUE(closes_on_exec(*made));
  }
}

TEST(StopEvent, is_readable_from_the_moment_that_stop_is_requested) {
  std::stop_source source;
  const StopEvent event(source.get_token());
  EXPECT_FALSE(is_readable(event.fd()));
  source.request_stop();
  EXPECT_TRUE(is_readable(event.fd()));
  const StopEvent late(source.get_token());
  EXPECT_TRUE(is_readable(late.fd()));
}

TEST(StopEvent, of_a_token_that_cannot_stop_is_never_readable) {
  const StopEvent event{std::stop_token()};
  EXPECT_FALSE(is_readable(event.fd()));
}

}  // namespace
}  // namespace pawl
