#include "evidence/audit_log.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>

#include "core/event_header.h"
#include "core/tenant.h"
#include "crypto/sha256.h"

namespace pawl {
namespace {

using boost::json::object;

// What one look for entries reads at most.
constexpr std::size_t look_bytes_max = std::size_t{16} << 20;

// The members by which an event names what it is about.
constexpr std::array<std::string_view, 7> object_members = {"run",       "workflow", "workspace", "key",
                                                            "connector", "name",     "number"};

struct HeldLine {
  std::uint64_t seq = 0;
  std::string text;
  bool is_wanted = false;
};

std::string text_at(const object& event, std::string_view key) {
  const Json* value = event.if_contains(key);
  if (!value) return {};
  const auto* text = value->if_string();
  return text ? std::string(std::string_view(*text)) : canonical(*value);
}

bool fits_pattern(std::string_view type, std::string_view wanted) {
  if (wanted == "*") return true;
  if (wanted.ends_with(".*")) return type.starts_with(wanted.substr(0, wanted.size() - 1));
  return type == wanted;
}

bool fits_type(std::string_view type, std::string_view wanted) {
  bool any_asked = false, any_fits = false;
  while (!wanted.empty()) {
    const auto end = wanted.find(',');
    std::string_view one = wanted.substr(0, end);
    wanted.remove_prefix(end == wanted.npos ? wanted.size() : end + 1);
    const bool is_excluded = one.starts_with('!');
    if (is_excluded) one.remove_prefix(1);
    if (one.empty()) continue;
    const bool fits = fits_pattern(type, one);
    if (is_excluded && fits) return false;
    if (is_excluded) continue;
    any_asked = true;
    any_fits = any_fits || fits;
  }
  return any_fits || !any_asked;
}

// `by` has "key:01kaw...", and the id of that key is "key_01kaw...".
std::string actor_of(std::string_view text) {
  constexpr std::string_view kind = "key:", prefix = "key_";
  const std::string_view id = text.starts_with(kind) ? text.substr(kind.size()) : text;
  return id.starts_with(prefix) ? std::string(kind) + std::string(id.substr(prefix.size())) : std::string(text);
}

// Names stand in lists and in objects too: the accounts, groups and keys of a person. Who did it is another filter.
bool names(const Json& value, std::string_view wanted) {
  if (const auto* text = value.if_string()) return *text == wanted;
  if (const auto* list = value.if_array())
    return std::ranges::any_of(*list, [&](const Json& each) { return names(each, wanted); });
  if (const auto* members = value.if_object())
    return std::ranges::any_of(*members, [&](const auto& each) {
      return each.key() != "by" && each.key() != "type" && (each.key() == wanted || names(each.value(), wanted));
    });
  return false;
}

// Of an event that does not name what it is about: a policy has a version and no name.
std::string kind_of(const object& event) {
  const std::string type = text_at(event, "type");
  return type.substr(0, type.find('.'));
}

bool is_about(const object& event, std::string_view wanted) {
  if (names(Json(event), wanted)) return true;
  const std::string kind = kind_of(event);
  if (kind == wanted || audit_subject(Json(event)) == wanted) return true;
  return std::ranges::any_of(object_members, [&](std::string_view member) { return text_at(event, member) == wanted; });
}

bool fits(const object& event, Instant at, const AuditFilter& filter) {
  if ((filter.since && at < *filter.since) || (filter.until && at >= *filter.until)) return false;
  if (!filter.actor.empty() && actor_of(text_at(event, "by")) != actor_of(filter.actor)) return false;
  if (!fits_type(text_at(event, "type"), filter.type)) return false;
  return filter.object.empty() || is_about(event, filter.object);
}

Instant time_in(const object& event) {
  const Json* at = event.if_contains("at");
  return at && at->is_int64() ? Instant{at->get_int64()} : Instant{};
}

// Looks at a tenant's stream from its end. Hashes go the other way: they are computed from the newest older event whose
// hash is known, which a checkpoint of the tenant's own stream says, or from the beginning.
class AuditReader {
 public:
  AuditReader(TenantId tenant, const AuditFilter& filter) : tenant_(tenant), filter_(filter) {}

  // True while it wants to see more.
  bool see(std::uint64_t seq, std::string_view line) {
    if (filter_.before && seq >= *filter_.before) return true;
    if (anchor_ && anchor_->seq == seq) return false;
    if (is_looking_) look(seq, line);
    const bool is_needed = !held_.empty();
    if (!is_looking_ && !is_needed) return false;
    if (is_needed && (held_.back().seq != seq)) held_.push_back({seq, std::string(line), false});
    if (!is_looking_) find_anchor(line, seq);
    return true;
  }

  AuditPage page() && {
    AuditPage out{{}, next_};
    Hash hash = anchor_ ? anchor_->head : genesis(StreamKey::of(tenant_));
    std::ranges::reverse(held_);
    for (HeldLine& held : held_) {
      if (anchor_ && held.seq <= anchor_->seq) continue;
      const Hash previous = std::exchange(hash, chain_next(sha256, hash, held.text));
      if (held.is_wanted) out.entries.push_back({held.seq, std::move(held.text), hash, previous});
    }
    std::ranges::reverse(out.entries);
    return out;
  }

 private:
  void look(std::uint64_t seq, std::string_view line) {
    if (wanted_ == filter_.limit || seen_bytes_ >= look_bytes_max) {
      next_ = seq + 1;
      is_looking_ = false;
      return;
    }
    seen_bytes_ += line.size();
    const auto value = parse_json(line);
    const auto* event = value ? value->if_object() : nullptr;
    if (!event) return;
    const Instant at = time_in(*event);
    // Servers' clocks may differ by a little, so a stream's times may too.
    if (filter_.since && at < *filter_.since - std::chrono::minutes(5)) {
      is_looking_ = false;
      return;
    }
    if (!fits(*event, at, filter_)) return;
    held_.push_back({seq, std::string(line), true});
    ++wanted_;
  }

  // "ten_... 13 9f86d0...": the hash after event 13 of the tenant's own stream.
  void find_anchor(std::string_view line, std::uint64_t seq) {
    if (anchor_ || read_event_header(line).type != "checkpoint.made") return;
    const auto event = parse_tenant_event(line);
    const auto* made = event ? std::get_if<CheckpointMade>(&event->payload) : nullptr;
    if (!made) return;
    for (const std::string& text : made->entries) {
      auto entry = text.starts_with(tenant_.str() + " ") ? parse_entry(text) : std::nullopt;
      if (entry && entry->seq < seq) anchor_ = std::move(*entry);
    }
  }

  const TenantId tenant_;
  const AuditFilter& filter_;
  std::vector<HeldLine> held_;  // newest first: from the first that is wanted on
  std::size_t wanted_ = 0;
  std::size_t seen_bytes_ = 0;
  bool is_looking_ = true;
  std::optional<std::uint64_t> next_;
  std::optional<LogEntry> anchor_;
};

object audit_object(const AuditEntry& entry) {
  object out{{"seq", entry.seq}};
  auto event = parse_json(entry.line);
  if (const auto* members = event ? event->if_object() : nullptr) {
    out["at"] = print_time(time_in(*members));
    out["by"] = text_at(*members, "by");
    out["type"] = text_at(*members, "type");
  }
  out["hash"] = entry.hash.hex();
  out["previous_hash"] = entry.previous_hash.hex();
  out["event"] = event ? std::move(*event) : Json(nullptr);
  return out;
}

}  // namespace

AuditPage read_audit_log(Store& store, TenantId tenant, const AuditFilter& filter) {
  AuditReader reader(tenant, filter);
  store.for_each_piece_back(StreamKey::of(tenant), [&](std::uint64_t first_seq, std::string_view lines) {
    auto seq = first_seq + static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
    while (!lines.empty()) {
      lines.remove_suffix(1);  // its line end
      const auto end = lines.rfind('\n');
      if (!reader.see(--seq, end == lines.npos ? lines : lines.substr(end + 1))) return false;
      lines = end == lines.npos ? std::string_view() : lines.substr(0, end + 1);
    }
    return true;
  });
  return std::move(reader).page();
}

std::string audit_subject(const Json& event) {
  const auto* members = event.if_object();
  std::string out;
  if (!members) return out;
  for (const std::string_view key : object_members)
    if (const std::string text = text_at(*members, key); !text.empty()) out += (out.empty() ? "" : " ") + text;
  if (out.empty() && kind_of(*members) == "policy") out = "policy";
  if (const std::string version = text_at(*members, "version"); !version.empty())
    out += (out.empty() ? "v" : " v") + version;
  return out;
}

object audit_page_object(const AuditPage& page) {
  boost::json::array items;
  for (const AuditEntry& entry : page.entries) items.push_back(audit_object(entry));
  return {{"items", std::move(items)}, {"next_cursor", page.next ? Json(std::to_string(*page.next)) : Json(nullptr)}};
}

}  // namespace pawl
