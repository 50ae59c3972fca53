// Ids are types. Each is 128 bits, ordered by the time it was made (UUID version 7), and printed as a TypeID:
// a prefix, an underscore and 26 characters of base32, for example run_01kaw3v9m8f2hr4x6q0t7c5ezy.
//
// Time order matters: new rows land at the right edge of every index, so a store does not slow down as it grows.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace pawl {

struct IdBits {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend constexpr auto operator<=>(const IdBits&, const IdBits&) = default;
};

std::string print_id(std::string_view prefix, IdBits bits);
std::optional<IdBits> parse_id(std::string_view prefix, std::string_view text);

// A child's id that follows from its parent's and a number: lets decide() name what it creates without drawing.
IdBits derive_id(IdBits parent, std::uint64_t ordinal);

template <class Tag>
struct Id {
  IdBits bits;

  static std::optional<Id> parse(std::string_view text) {
    auto bits = parse_id(Tag::prefix, text);
    return bits ? std::optional<Id>(Id{*bits}) : std::nullopt;
  }
  std::string str() const { return print_id(Tag::prefix, bits); }
  constexpr bool is_nil() const { return bits == IdBits{}; }

  friend constexpr auto operator<=>(const Id&, const Id&) = default;
};

struct TenantTag {
  static constexpr std::string_view prefix = "ten";
};
struct RunTag {
  static constexpr std::string_view prefix = "run";
};
struct ApprovalTag {
  static constexpr std::string_view prefix = "apr";
};
struct ReceiptTag {
  static constexpr std::string_view prefix = "rcp";
};
struct TaskTag {
  static constexpr std::string_view prefix = "task";
};
struct KeyTag {
  static constexpr std::string_view prefix = "key";
};

using TenantId = Id<TenantTag>;
using RunId = Id<RunTag>;
using ApprovalId = Id<ApprovalTag>;
using ReceiptId = Id<ReceiptTag>;
using TaskId = Id<TaskTag>;
using KeyId = Id<KeyTag>;  // of an API key

// Names that people give: a step's id in its workflow, a workspace, a tool. Same idea, other spelling.
template <class Tag>
struct Name {
  std::string text;

  const std::string& str() const { return text; }
  bool empty() const { return text.empty(); }
  friend auto operator<=>(const Name&, const Name&) = default;
};

using StepId = Name<struct StepTag>;
using WorkspaceName = Name<struct WorkspaceTag>;
using WorkflowName = Name<struct WorkflowTag>;
using ToolName = Name<struct ToolTag>;
using WorkerName = Name<struct WorkerTag>;
// Who acted: "person:ada", "key:01h...", "worker:local-1", "timer", "engine".
using Actor = Name<struct ActorTag>;

// A letter or digit first, then also . _ -, at most 64 characters: safe in paths, SQL, expressions and diagrams.
inline constexpr std::size_t name_chars_max = 64;
bool is_valid_name(std::string_view text);

}  // namespace pawl

template <class Tag>
struct std::hash<pawl::Id<Tag>> {
  std::size_t operator()(const pawl::Id<Tag>& id) const noexcept {
    // Ids made in the same millisecond share their high bits; the low bits are random.
    return id.bits.low ^ (id.bits.high * 0x9e3779b97f4a7c15ULL);
  }
};

template <class Tag>
struct std::hash<pawl::Name<Tag>> {
  std::size_t operator()(const pawl::Name<Tag>& name) const noexcept { return std::hash<std::string>{}(name.text); }
};
