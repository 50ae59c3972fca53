#include "process/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace pawl {
namespace {

using Texts = std::vector<std::string>;

ProcessPlan wrapped(Texts environment) {
  return Sandbox("/usr/bin/bwrap")
      .wrap({.argv = {"program"}, .environment = std::move(environment), .directory = "/box"},
            {.directory = "/box", .writable = {"/box"}, .readable = {}, .hidden = {}});
}

std::string content_of(int fd) {
  std::string out(4096, '\0');
  const auto size = ::pread(fd, out.data(), out.size(), 0);
  out.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return out;
}

TEST(Sandbox, starts_bwrap_without_any_variable_of_the_program) {
  const auto plan = wrapped({"LD_PRELOAD=/box/evil.so", "LD_AUDIT=/box/evil.so", "GLIBC_TUNABLES=x", "PATH=/box",
                             "EMPTY=", "TOKEN=a=b\n--bind"});
  EXPECT_EQ(plan.environment, Texts{"PATH=/usr/bin:/bin"});
  EXPECT_EQ(plan.argv.front(), "/usr/bin/bwrap");
  for (const auto& argument : plan.argv)
    for (const char* own : {"evil", "a=b", "TOKEN"}) EXPECT_FALSE(argument.contains(own)) << argument;
}

TEST(Sandbox, hands_the_programs_variables_to_bwrap_in_a_file) {
  const auto plan = wrapped({"PATH=/box", "EMPTY=", "TOKEN=a=b\n--bind"});
  ASSERT_EQ(plan.inherited.size(), 1u);
  const int fd = plan.inherited.front()->get();
  const auto at = std::ranges::find(plan.argv, "--args");
  ASSERT_NE(at, plan.argv.end());
  EXPECT_EQ(*std::next(at), std::to_string(fd));
  const char wanted[] = "--clearenv\0--setenv\0PATH\0/box\0--setenv\0EMPTY\0\0--setenv\0TOKEN\0a=b\n--bind";
  EXPECT_EQ(content_of(fd), std::string(wanted, sizeof wanted));
  EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC) << "other children must not inherit it";
}

}  // namespace
}  // namespace pawl
