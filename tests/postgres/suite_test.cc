// The suite that every store passes, straight and through a pooler that gives each transaction another session.
#include "postgres/postgres_case.h"

namespace pawl::test {
namespace {

class PostgresHarness : public StoreHarness {
 public:
  explicit PostgresHarness(bool pooled) : pooled_(pooled) {}

  std::unique_ptr<Store> open() override {
    PostgresOptions options = database_.options();
    if (pooled_) options.url = database_.pooled_url();
    return std::make_unique<PostgresStore>(options);
  }

 private:
  bool pooled_;
  TestDatabase database_;
};

INSTANTIATE_TEST_SUITE_P(Postgres, StoreSuite,
                         testing::Values(StoreKind{"straight", [] { return std::make_unique<PostgresHarness>(false); }},
                                         StoreKind{"pooled", [] { return std::make_unique<PostgresHarness>(true); }}),
                         [](const testing::TestParamInfo<StoreKind>& kind) { return kind.param.name; });

}  // namespace
}  // namespace pawl::test
