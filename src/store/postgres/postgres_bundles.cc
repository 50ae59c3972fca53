// What is stored of bundles: looked up for one run, or walked through for all.
#include "store/postgres/postgres_store.h"
#include "store/postgres/statements.h"

namespace pawl {
namespace {

using postgres::Rows;
using postgres::Values;

BundleRow read_bundle(TenantId tenant, const Rows& rows, int row) {
  const auto run = RunId::parse(rows.text(row, 0));
  const auto hash = Hash::parse(rows.text(row, 4));
  if (!run || !hash) throw StoreFailure("a row of a stored bundle is damaged");
  return {tenant, {*run, rows.u64(row, 2), *hash, rows.u64(row, 3), rows.text(row, 5)}, rows.at(row, 1)};
}

}  // namespace

std::optional<BundleRow> PostgresStore::find_bundle(TenantId tenant, RunId run) {
  const Rows rows = list(tenant, postgres::find_bundle, Values().id(tenant.bits).text(run.str()));
  return rows.empty() ? std::nullopt : std::optional(read_bundle(tenant, rows, 0));
}

void PostgresStore::for_each_bundle(TenantId tenant, const std::function<void(const BundleRow&)>& visit) {
  constexpr std::size_t rows_a_look = 500;
  for (std::string place;;) {
    const Rows rows = list(tenant, postgres::bundles_after, Values().id(tenant.bits).text(place).limit(rows_a_look));
    for (int row = 0; row < rows.size(); ++row) visit(read_bundle(tenant, rows, row));
    if (static_cast<std::size_t>(rows.size()) < rows_a_look) return;
    place = rows.text(rows.size() - 1, 0);
  }
}

}  // namespace pawl
