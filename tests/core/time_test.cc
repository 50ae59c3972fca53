#include "core/time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace pawl {
namespace {

using namespace std::chrono_literals;

TEST(Time, prints_milliseconds_in_utc) {
  EXPECT_EQ(print_time({0}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(print_time({1'794'795'717'123}), "2026-11-16T02:21:57.123Z");
  EXPECT_EQ(print_time({-1}), "1969-12-31T23:59:59.999Z");
}

TEST(Time, prints_moments_out_of_range_as_the_nearest_one) {
  EXPECT_EQ(print_time(end_of_time), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(print_time({INT64_MIN}), "0000-01-01T00:00:00.000Z");
}

TEST(Time, reads_zones_and_fractions) {
  EXPECT_EQ(parse_time("2026-11-16T02:21:57.123Z"), (Instant{1'794'795'717'123}));
  EXPECT_EQ(parse_time("2026-11-16t02:21:57z"), (Instant{1'794'795'717'000}));
  EXPECT_EQ(parse_time("2026-11-16T04:21:57.123456789+02:00"), (Instant{1'794'795'717'123}));
  EXPECT_EQ(parse_time("2026-11-15T21:51:57.1-04:30"), (Instant{1'794'795'717'100}));
  EXPECT_EQ(parse_time("2024-02-29T00:00:00Z"), (Instant{1'709'164'800'000}));
}

TEST(Time, refuses_what_is_not_rfc_3339) {
  for (const auto* text :
       {"", "2026-11-16", "2026-11-16T02:21Z", "2026-11-16 02:21:57Z", "2026-11-16T02:21:57", "2026-13-16T02:21:57Z",
        "2026-02-29T02:21:57Z", "2026-11-16T24:00:00Z", "2026-11-16T02:60:57Z", "2026-11-16T02:21:60Z",
        "2026-11-16T02:21:57.Z", "2026-11-16T02:21:57+2:00", "2026-11-16T02:21:57+24:00", "2026-11-16T02:21:57Zx",
        "26-11-16T02:21:57Z", "2026-1-16T02:21:57Z", "-026-11-16T02:21:57Z"})
    EXPECT_FALSE(parse_time(text)) << text;
}

RC_GTEST_PROP(Time, reads_back_what_it_prints, ()) {
  const Instant at{*rc::gen::inRange<std::int64_t>(-62'167'219'200'000, 253'402'300'800'000)};
  RC_ASSERT(parse_time(print_time(at)) == at);
}

TEST(Durations, have_one_spelling_when_printed) {
  EXPECT_EQ(print_duration(0ms), "0s");
  EXPECT_EQ(print_duration(250ms), "250ms");
  EXPECT_EQ(print_duration(15min), "15m");
  EXPECT_EQ(print_duration(90s), "1m30s");
  EXPECT_EQ(print_duration(24h), "1d");
  EXPECT_EQ(print_duration(-90s), "-1m30s");
  EXPECT_EQ(print_duration(Duration(INT64_MIN)).substr(0, 1), "-");
}

TEST(Durations, are_numbers_with_units_largest_first) {
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("90s"), 90s);
  EXPECT_EQ(parse_duration("15m"), 15min);
  EXPECT_EQ(parse_duration("4h"), 4h);
  EXPECT_EQ(parse_duration("2d"), 48h);
  EXPECT_EQ(parse_duration("1h30m"), 90min);
  EXPECT_EQ(parse_duration("1d2h3m4s5ms"), 26h + 3min + 4s + 5ms);
  EXPECT_EQ(parse_duration("0s"), 0ms);
  EXPECT_EQ(parse_duration("366d"), duration_max);
}

TEST(Durations, refuse_everything_else) {
  for (const auto* text : {"", "5", "s", "5 s", "5S", "1.5h", "-5s", "+5s", "30m1h", "5s5s", "1h 30m", "5sec", "367d",
                           "366d1ms", "31622400001ms", "99999999999999999999s", "5s ", "1h30"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

RC_GTEST_PROP(Durations, read_back_what_they_print, ()) {
  const Duration span(*rc::gen::inRange<std::int64_t>(0, duration_max.count() + 1));
  RC_ASSERT(parse_duration(print_duration(span)) == span);
}

}  // namespace
}  // namespace pawl
