// Loaded before libc: the process lives CLOCK_SHIFT_S seconds later than everyone else, or earlier when that is
// negative. Spans of time are as long as ever.
#include <dlfcn.h>
#include <time.h>

#include <cstdlib>

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
  using Call = int(clockid_t, timespec*);
  static const auto next = reinterpret_cast<Call*>(dlsym(RTLD_NEXT, "clock_gettime"));
  static const char* const shift = std::getenv("CLOCK_SHIFT_S");
  const int result = next(clock, time);
  if (result == 0 && shift && clock == CLOCK_REALTIME) time->tv_sec += std::atol(shift);
  return result;
}
