#include "core/id.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace pawl {
namespace {

IdBits draw_bits() { return {*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::arbitrary<std::uint64_t>()}; }

TEST(Id, is_a_prefix_and_26_characters) {
  EXPECT_EQ(RunId{}.str(), "run_00000000000000000000000000");
  EXPECT_EQ((RunId{{UINT64_MAX, UINT64_MAX}}.str()), "run_7zzzzzzzzzzzzzzzzzzzzzzzzz");
}

RC_GTEST_PROP(Id, reads_back_what_it_prints, ()) {
  const RunId id{draw_bits()};
  RC_ASSERT(RunId::parse(id.str()) == id);
}

RC_GTEST_PROP(Id, text_sorts_as_the_id_does, ()) {
  const RunId a{draw_bits()};
  const RunId b{draw_bits()};
  RC_ASSERT((a < b) == (a.str() < b.str()));
}

TEST(Id, has_one_spelling_only) {
  for (const auto* text :
       {"", "run_", "run_0000000000000000000000000", "run_000000000000000000000000000",
        "apr_00000000000000000000000000", "run-00000000000000000000000000", "run_8zzzzzzzzzzzzzzzzzzzzzzzzz",
        "run_0000000000000000000000000O", "run_0000000000000000000000000A", "run_0000000000000000000000000u"})
    EXPECT_FALSE(RunId::parse(text)) << text;
}

TEST(Id, of_a_child_follows_from_its_parent_and_differs) {
  const IdBits parent{0x0199a0b1c2d37000, 0x8123456789abcdef};
  std::set<IdBits> seen{parent};
  for (std::uint64_t ordinal = 0; ordinal < 10'000; ++ordinal) {
    const IdBits child = derive_id(parent, ordinal);
    EXPECT_EQ(child, derive_id(parent, ordinal));
    EXPECT_TRUE(seen.insert(child).second) << ordinal;
  }
}

TEST(Name, is_safe_in_paths_and_expressions) {
  for (const auto* text : {"a", "7", "fetch", "http.request", "sign-off", "A_b.c-d"}) EXPECT_TRUE(is_valid_name(text));
  EXPECT_TRUE(is_valid_name(std::string(name_chars_max, 'a')));
  for (const auto* text : {"", "-a", ".a", "_a", "a b", "a/b", "a\n", "ä", "${{"}) EXPECT_FALSE(is_valid_name(text));
  EXPECT_FALSE(is_valid_name(std::string(name_chars_max + 1, 'a')));
}

}  // namespace
}  // namespace pawl
