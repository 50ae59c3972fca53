#include "cli/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/folder.h"
#include "process/descriptor.h"

namespace pawl {
namespace {

constexpr std::size_t file_bytes_max = 16 << 20;

std::string read_to_end(int fd, const std::string& name) {
  std::string content;
  char buffer[64 * 1024];
  while (true) {
    auto got = ::read(fd, buffer, sizeof buffer);
    if (got == 0) return content;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Stop(exit_not_found, fmt::format("{} cannot be read: {}", name, std::strerror(errno)));
    content.append(buffer, static_cast<std::size_t>(got));
    if (content.size() > file_bytes_max)
      throw Stop(exit_usage, fmt::format("{} is larger than {} MiB", name, file_bytes_max >> 20));
  }
}

}  // namespace

std::string read_whole_file(const std::string& path) {
  if (path == "-") return read_to_end(STDIN_FILENO, "stdin");
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open())
    throw Stop(errno == ENOENT ? exit_not_found : exit_usage,
               fmt::format("{} cannot be opened: {}", path, std::strerror(errno)));
  return read_to_end(file.get(), path);
}

}  // namespace pawl
