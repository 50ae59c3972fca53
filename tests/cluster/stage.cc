#include "cluster/stage.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

#include "store/stream.h"

namespace pawl::cluster {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  if (!value) throw std::runtime_error(fmt::format("{} is not set: start this through tests/postgres/cluster", name));
  return value;
}

std::string url_of(const std::string& database, const std::string& user) {
  return fmt::format("postgres://{}@/{}?host={}&port={}", user, database, setting("PAWL_PG_HOST"),
                     setting("PAWL_PG_PORT"));
}

constexpr const char* own_clock = R"sql(
CREATE TABLE pawl.cluster_clock(at bigint NOT NULL);
INSERT INTO pawl.cluster_clock VALUES(0);
CREATE OR REPLACE FUNCTION pawl.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
  $$ SELECT at FROM pawl.cluster_clock $$;
)sql";
constexpr const char* forget_everything =
    "TRUNCATE pawl.servers, pawl.tenants, pawl.workflows, pawl.runs, pawl.events, pawl.ready, pawl.approvals, "
    "pawl.requests, pawl.starts, pawl.meters, pawl.receipts, pawl.effects, pawl.bundles";

}  // namespace

Stage::Stage() : name_(fmt::format("cluster_{}", ::getpid())), url_(url_of(name_, "pawl")) {
  admin_address_.emplace(url_of("postgres", "postgres"));
  admin_.emplace(*admin_address_, given_up_);
  admin_->script(fmt::format("CREATE DATABASE {} OWNER pawl", name_));
  open();  // makes the tables
  address_.emplace(url_);
  connection_.emplace(*address_, given_up_);
  connection_->script(own_clock);
}

Stage::~Stage() {
  connection_.reset();
  admin_->script(fmt::format("DROP DATABASE {} WITH (FORCE)", name_));
}

void Stage::clear(Instant now) {
  connection_->script(forget_everything);
  set_time(now);
}

void Stage::set_time(Instant now) {
  connection_->call("UPDATE pawl.cluster_clock SET at = $1", postgres::Values().at(now));
}

std::uint64_t Stage::commits_of(std::uint32_t server) {
  auto rows =
      ask("SELECT commits FROM pawl.servers WHERE number = $1", postgres::Values().i32(static_cast<int>(server)));
  return rows.empty() ? 0 : rows.u64(0, 0);
}

std::vector<KeptFrame> Stage::events_behind(Position& position) {
  auto rows =
      ask("SELECT position, tenant, stream, first_seq, lines FROM pawl.events WHERE position > $1 ORDER BY position, "
          "tenant, "
          "stream",
          postgres::Values().u64(position));
  std::vector<KeptFrame> frames;
  for (int row = 0; row < rows.size(); ++row) {
    position = rows.u64(row, 0);
    if (frames.empty() || frames.back().position != position) frames.push_back({position, {}});
    append_part(frames.back().parts, {{{rows.id(row, 1)}, rows.id(row, 2)}, rows.u64(row, 3), rows.bytes(row, 4)});
  }
  return frames;
}

}  // namespace pawl::cluster
