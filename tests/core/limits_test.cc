// What a tenant's stream says of limits, suspension and freezes.
#include <gtest/gtest.h>

#include "core/tenant.h"

namespace pawl::tests {
namespace {

struct TenantStory {
  Tenant tenant;
  std::int64_t at = 1000;

  TenantStory() { append(TenantCreated{"acme"}); }
  // Written, read again, and folded; false when it does not follow.
  bool append(TenantPayload payload) {
    std::string line;
    append_event(line, {{at += 1000}, Actor{"key:boss"}, std::move(payload)});
    auto read = parse_tenant_event(line);
    EXPECT_TRUE(read.has_value()) << line << ": " << read.error();
    std::string again;
    append_event(again, *read);
    EXPECT_EQ(again, line);
    return evolve_checked(tenant, *read).has_value();
  }
};

TEST(TenantLimits, of_older_events_are_read) {
  Tenant tenant;
  evolve(tenant, {{1}, {}, TenantCreated{"acme"}});
  auto old = parse_tenant_event(
      R"({"at":1800000000001,"max_concurrency":1,"max_runs_per_min":2,"max_writes_per_run":3,"type":"tenant.limits_set",)"
      R"("v":1,"weight":4})");
  ASSERT_TRUE(old.has_value()) << old.error();
  evolve(tenant, *old);
  EXPECT_EQ(effective_caps(tenant), (Caps{1, 2, 3}));
  EXPECT_EQ(tenant.weight, 4);
}

TEST(TenantLimits, in_force_are_the_lower_of_the_tenants_and_the_installations) {
  TenantStory story;
  for (std::size_t i = 0; i < enum_count<Limit>; ++i) {
    const auto limit = static_cast<Limit>(i);
    for (auto [own, ceiling, wanted] :
         {std::tuple<std::optional<std::int64_t>, std::optional<std::int64_t>, std::optional<std::int64_t>>{{}, {}, {}},
          {5, {}, 5},
          {{}, 5, 5},
          {5, 7, 5},
          {7, 5, 5}}) {
      story.tenant.limits[limit] = own;
      story.tenant.ceiling[limit] = ceiling;
      EXPECT_EQ(effective_limit(story.tenant, limit), wanted) << to_string(limit);
    }
  }
}

TEST(TenantLimits, a_suspended_tenant_may_run_nothing) {
  TenantStory story;
  EXPECT_FALSE(story.append(TenantResumed{}));
  EXPECT_TRUE(story.append(TenantSuspended{"unpaid"}));
  EXPECT_FALSE(story.append(TenantSuspended{"again"}));
  EXPECT_EQ(effective_caps(story.tenant).max_concurrency, 0);
  EXPECT_EQ(effective_caps(story.tenant).max_runs_per_min, 0);
  EXPECT_TRUE(story.append(TenantResumed{}));
  EXPECT_EQ(effective_caps(story.tenant), Caps{});
}

TEST(TenantLimits, that_make_no_sense_are_not_read) {
  for (const char* bad : {R"("max_connections":-1)", R"("max_connections":"5")", R"("max_connections":1000000001)",
                          R"("max_stored_bytes":1125899906842625)"}) {
    std::string line = R"({"at":1800000000001,)" + std::string(bad) + R"(,"type":"tenant.ceiling_set","v":1})";
    EXPECT_FALSE(parse_tenant_event(line).has_value()) << line;
  }
}

TEST(Freezes, are_lifted_by_whoever_made_them) {
  TenantStory story;
  EXPECT_TRUE(story.append(EffectsFrozen{FreezeScope::tenant, "", "one"}));
  EXPECT_FALSE(story.append(EffectsFrozen{FreezeScope::tenant, "", "again"}));
  EXPECT_TRUE(story.append(EffectsFrozen{FreezeScope::installation, "shop", "two"}));
  EXPECT_FALSE(story.append(EffectsUnfrozen{FreezeScope::tenant, "shop"}));
  EXPECT_EQ(frozen_reason(story.tenant.freezes, {}, "desk"),
            "effects are frozen by key:boss since 1970-01-01T00:00:03.000Z: one");
  EXPECT_TRUE(story.append(EffectsUnfrozen{FreezeScope::tenant, ""}));
  EXPECT_EQ(frozen_reason(story.tenant.freezes, {}, "desk"), std::nullopt);
  EXPECT_EQ(frozen_reason(story.tenant.freezes, {}, "shop"),
            "effects are frozen by the installation since 1970-01-01T00:00:05.000Z: two");
  EXPECT_TRUE(story.append(EffectsUnfrozen{FreezeScope::installation, "shop"}));
  EXPECT_TRUE(story.tenant.freezes.empty());
}

}  // namespace
}  // namespace pawl::tests
