// A tenant's own stream as an audit log: who changed what, newest first, with the hashes that chain one event to the
// next. It holds administration, policies, workflows, keys, refused requests on ended runs, checkpoints and stored
// bundles; the events of a run are in the run's own stream.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/chain.h"
#include "core/id.h"
#include "core/time.h"
#include "store/store.h"

namespace pawl {

struct AuditFilter {
  std::string actor;  // who did it, as `by` has it, or the id of a key; empty: anybody
  // "key.created", or "key.*"; "!key.*" is all others. Several with commas between them: one of those without "!", and
  // none of those with it. Empty: any.
  std::string type;
  std::string object;  // the run, workflow, key, person, account, group ... that the event names; empty: any
  std::optional<Instant> since;
  std::optional<Instant> until;         // before this moment
  std::optional<std::uint64_t> before;  // cursor: events before this one
  std::size_t limit = 50;
};

struct AuditEntry {
  std::uint64_t seq = 0;
  std::string line;  // the event, canonical JSON
  Hash hash;         // sha256(previous_hash, line)
  Hash previous_hash;
};

struct AuditPage {
  std::vector<AuditEntry> entries;  // newest first
  // Where the next page begins; nothing when there are no more. One look reads a bounded part of the stream, so a page
  // may be short, or empty, and not the last.
  std::optional<std::uint64_t> next;
};

// Of what is folded into the tables.
AuditPage read_audit_log(Store& store, TenantId tenant, const AuditFilter& filter);

// {"items": [{seq, at, by, type, hash, previous_hash, event}], "next_cursor"}
boost::json::object audit_page_object(const AuditPage& page);
// What an event is about, in a few words: "run_01kaw...", "refund 3".
std::string audit_subject(const Json& event);

}  // namespace pawl
