#include "yaml/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "core/characters.h"
#include "core/json.h"
#include "core/source_reader.h"

namespace pawl {
namespace {

// Leaves the parser from inside an event: yaml-cpp has no other way to stop.
struct Refused {
  SourceError error;
};

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

// JSON writes characters above U+FFFF as two escapes, a surrogate pair; YAML has one escape for them, and yaml-cpp
// refuses pairs.
struct JoinedPairs {
  std::string text;
  std::vector<std::size_t> offsets;  // of the joined escapes in `text`

  static constexpr std::size_t pair_chars = 12;    // \ud83d\ude00
  static constexpr std::size_t joined_chars = 10;  // \U0001f600
};

// Only for JSON: in other YAML the same characters may stand outside double quotes and mean themselves.
std::optional<JoinedPairs> join_pairs(std::string_view text) {
  if (text.find("\\ud") == std::string_view::npos && text.find("\\uD") == std::string_view::npos) return std::nullopt;
  if (!parse_json(text)) return std::nullopt;
  auto unit = [&](std::size_t at) {
    unsigned code = 0;
    std::from_chars(text.data() + at + 2, text.data() + at + 6, code, 16);
    return code;
  };
  JoinedPairs out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '\\') {
      out.text += text[i++];
    } else if (text[i + 1] == 'u' && unit(i) >= 0xD800 && unit(i) < 0xDC00) {
      const unsigned code = 0x10000 + ((unit(i) - 0xD800) << 10) + (unit(i + 6) - 0xDC00);
      out.offsets.push_back(out.text.size());
      out.text += "\\U000";
      for (int shift = 16; shift >= 0; shift -= 4) out.text += "0123456789abcdef"[(code >> shift) & 15];
      i += JoinedPairs::pair_chars;
    } else {
      out.text.append(text, i, 2);
      i += 2;
    }
  }
  return out;
}

// Turns yaml-cpp's marks, which count bytes from 0, into places, which count characters from 1.
class Places {
 public:
  Places(std::string_view text, std::vector<std::size_t> joined_pairs)
      : text_(text), joined_pairs_(std::move(joined_pairs)) {
    starts_.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') starts_.push_back(i + 1);
  }

  Place at(std::size_t offset) {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const auto line = static_cast<std::size_t>(next - starts_.begin()) - 1;
    // Marks come in rising order; counting on from the last one keeps a document of one long line linear.
    if (line != counted_line_ || offset < counted_offset_) {
      counted_line_ = line;
      counted_offset_ = starts_[line];
      counted_column_ = 0;
    }
    counted_column_ += count_characters(text_.substr(counted_offset_, offset - counted_offset_)) +
                       pairs_between(counted_offset_, offset) * (JoinedPairs::pair_chars - JoinedPairs::joined_chars);
    counted_offset_ = std::min(offset, text_.size());
    return {static_cast<int>(line) + 1, static_cast<int>(counted_column_) + 1};
  }

  Place at(const YAML::Mark& mark) { return at(offset(mark)); }

  std::size_t offset(const YAML::Mark& mark) const {
    // At its end yaml-cpp goes back to the first column, as if one more line had begun.
    if (mark.pos >= 0 && static_cast<std::size_t>(mark.pos) >= text_.size()) return text_.size();
    const auto line = static_cast<std::size_t>(std::max(mark.line, 0));
    const auto column = static_cast<std::size_t>(std::max(mark.column, 0));
    return std::min(starts_[std::min(line, starts_.size() - 1)] + column, text_.size());
  }

  std::string_view text() const { return text_; }
  std::size_t line_start(std::size_t offset) const {
    return *(std::upper_bound(starts_.begin(), starts_.end(), offset) - 1);
  }

 private:
  std::size_t pairs_between(std::size_t from, std::size_t to) const {
    const auto first = std::lower_bound(joined_pairs_.begin(), joined_pairs_.end(), from);
    return static_cast<std::size_t>(std::lower_bound(first, joined_pairs_.end(), to) - first);
  }

  std::string_view text_;
  std::vector<std::size_t> joined_pairs_;
  std::vector<std::size_t> starts_;
  std::size_t counted_line_ = 0;
  std::size_t counted_offset_ = 0;
  std::size_t counted_column_ = 0;
};

bool is_null_word(std::string_view text) {
  constexpr std::array<std::string_view, 4> words{"~", "null", "Null", "NULL"};
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return text.starts_with(word) &&
           (text.size() == word.size() ||
            std::string_view(" \t\r\n,]}#").find(text[word.size()]) != std::string_view::npos);
  });
}

// Whether the quoted text that `source` begins with ends somewhere: yaml-cpp takes the end of the document for a quote.
bool is_closed(std::string_view source) {
  const char quote_mark = source[0];
  for (std::size_t i = 1; i < source.size(); ++i) {
    if (quote_mark == '"' && source[i] == '\\')
      ++i;
    else if (quote_mark == '\'' && source.substr(i).starts_with("''"))
      ++i;
    else if (source[i] == quote_mark)
      return true;
  }
  return false;
}

// What an alias to a value costs.
struct Weight {
  std::size_t nodes = 1;
  std::size_t bytes = 0;
  std::size_t depth = 0;  // lists and maps inside each other, this one included
};

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const YamlLimits& limits, Places& places)
      : text_(text), limits_(limits), places_(places) {}

  std::optional<SourceNode> take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "only one document is read; remove this one and the `---` before it");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    SourceNode node;
    node.place = place_of_null(places_.offset(mark));
    add_nodes(node.place, 1);
    put(std::move(node), anchor, {});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (++aliases_ > limits_.aliases_max)
      refuse(mark, "more than " + std::to_string(limits_.aliases_max) + " aliases; write the values out");
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) refuse(mark, "this alias stands inside the value that it names");
    const auto& [node, weight] = found->second;
    if (open_.size() + weight.depth > limits_.depth_max) refuse_depth(places_.at(mark));
    add_nodes(places_.at(mark), weight.nodes);
    aliased_bytes_ += weight.bytes;
    if (aliased_bytes_ > limits_.bytes_max)
      refuse(mark, "aliases make this document larger than " + std::to_string(limits_.bytes_max) + " bytes");
    SourceNode copy = node;
    if (expects_key()) copy.place = places_.at(mark);
    put(std::move(copy), YAML::NullAnchor, weight);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    // yaml-cpp makes single bytes of these two.
    if (find_invalid_utf8(value))
      refuse(mark, "the escapes `\\N` and `\\_` are not read; write `\\u0085` and `\\u00a0`");
    SourceNode node;
    node.kind = SourceNode::Kind::scalar;
    node.place = places_.at(mark);
    node.scalar = value;
    node.quoted = tag == "!";
    const std::string_view source = text_.substr(places_.offset(mark));
    const bool has_quotes = node.quoted && (source.starts_with('"') || source.starts_with('\''));
    node.verbatim = node.quoted == has_quotes && value.find('\n') == std::string::npos &&
                    source.substr(has_quotes ? 1 : 0).starts_with(value);
    if (has_quotes && !is_closed(source))
      refuse(mark, "this quote is not closed; the text goes on to the end of the document");
    add_nodes(node.place, 1);
    put(std::move(node), anchor, {.bytes = value.size()});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(SourceNode::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(SourceNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Key {
    std::string text;
    Place place;
  };
  // A list or map whose end has not come yet.
  struct Frame {
    SourceNode node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    Weight weight;
    std::optional<Key> key;                      // of a map: read, and waiting for its value
    std::unordered_map<std::string, int> lines;  // of a map: where each key stands
  };

  [[noreturn]] static void refuse(Place place, std::string reason) {
    throw Refused{{place, one_line(std::move(reason))}};
  }
  [[noreturn]] void refuse(const YAML::Mark& mark, std::string reason) { refuse(places_.at(mark), std::move(reason)); }
  [[noreturn]] void refuse_depth(Place place) {
    refuse(place, "nested deeper than " + std::to_string(limits_.depth_max) + "; make the document flatter");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark, "tags such as " + quote(tag) + " are not read; remove it, and put text in quotes");
  }

  // For `key:` or `-` with nothing behind it the mark is already at whatever comes next.
  Place place_of_null(std::size_t offset) {
    if (open_.empty() || is_null_word(text_.substr(offset))) return places_.at(offset);
    if (open_.back().key) return open_.back().key->place;
    const std::size_t before = offset > 0 ? text_.find_last_not_of(" \t\r\n", offset - 1) : std::string_view::npos;
    return places_.at(before == std::string_view::npos ? offset : before);
  }

  void add_nodes(Place place, std::size_t count) {
    nodes_ += count;
    if (nodes_ > limits_.nodes_max)
      refuse(place, "more than " + std::to_string(limits_.nodes_max) + " values, counting what aliases name");
  }

  void open(SourceNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    const Place place = places_.at(mark);
    refuse_tag(mark, tag);
    if (open_.size() >= limits_.depth_max) refuse_depth(place);
    if (expects_key()) refuse(place, "a key must be text, not a list or a map; or is a bracket not closed?");
    add_nodes(place, 1);
    Frame& frame = open_.emplace_back();
    frame.node.kind = kind;
    frame.node.place = place;
    frame.anchor = anchor;
    frame.weight.depth = 1;
  }

  void close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    put(std::move(frame.node), frame.anchor, frame.weight);
  }

  bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == SourceNode::Kind::map && !open_.back().key;
  }

  void put(SourceNode node, YAML::anchor_t anchor, const Weight& weight) {
    if (anchor != YAML::NullAnchor) keep(anchor, node, weight);
    if (expects_key()) {
      put_key(std::move(node));
      return;
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = open_.back();
    parent.weight.nodes += weight.nodes;
    parent.weight.bytes += weight.bytes;
    parent.weight.depth = std::max(parent.weight.depth, weight.depth + 1);
    if (parent.node.kind == SourceNode::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else {
      parent.node.entries.push_back({std::move(parent.key->text), parent.key->place, std::move(node)});
      parent.key.reset();
    }
  }

  void put_key(SourceNode node) {
    Frame& map = open_.back();
    if (node.kind != SourceNode::Kind::scalar)
      refuse(node.place, "a key must be text" + std::string(node.kind == SourceNode::Kind::null
                                                                ? ", not empty; put it in quotes to mean the word"
                                                                : ", not a list or a map"));
    if (node.scalar == "<<" && !node.quoted) refuse(node.place, "merge keys (`<<`) are not read; write the keys out");
    const auto [first, is_new] = map.lines.emplace(node.scalar, node.place.line);
    if (!is_new)
      refuse(node.place, "key " + quote(node.scalar) + " is already given in line " + std::to_string(first->second));
    map.weight.bytes += node.scalar.size();
    map.key = Key{std::move(node.scalar), node.place};
  }

  // A copy for the aliases to come. Anchors inside anchors are copied once each, so the copies have a limit too.
  void keep(YAML::anchor_t anchor, const SourceNode& node, const Weight& weight) {
    kept_.nodes += weight.nodes;
    kept_.bytes += weight.bytes;
    if (kept_.nodes > limits_.nodes_max || kept_.bytes > limits_.bytes_max)
      refuse(node.place, "too much stands under anchors; write the values out");
    anchored_.emplace(anchor, std::pair(node, weight));
  }

  std::string_view text_;
  const YamlLimits& limits_;
  Places& places_;
  std::vector<Frame> open_;
  std::unordered_map<YAML::anchor_t, std::pair<SourceNode, Weight>> anchored_;
  std::optional<SourceNode> root_;
  Weight kept_{.nodes = 0};
  std::size_t nodes_ = 0;
  std::size_t aliased_bytes_ = 0;
  std::size_t aliases_ = 0;
  int documents_ = 0;
};

// yaml-cpp's words for what authors get wrong most often, and ours.
struct Wording {
  std::string_view theirs;
  std::string_view ours;
  bool may_be_tab = false;  // this is also what a tab in the indentation ends in
};
const std::array wordings{
    Wording{YAML::ErrorMsg::TAB_IN_INDENTATION, "a tab cannot indent YAML; use spaces"},
    Wording{YAML::ErrorMsg::UNKNOWN_ANCHOR, "no anchor with this name stands before this alias"},
    Wording{YAML::ErrorMsg::END_OF_MAP, "this line does not fit the map it stands in; check its indentation", true},
    Wording{YAML::ErrorMsg::END_OF_SEQ, "this line does not fit the list it stands in; check its indentation", true},
    Wording{YAML::ErrorMsg::END_OF_MAP_FLOW, "a `,` or `}` is missing before this"},
    Wording{YAML::ErrorMsg::END_OF_SEQ_FLOW, "a `,` or `]` is missing before this"},
    Wording{YAML::ErrorMsg::FLOW_END, "this bracket closes nothing"},
    Wording{YAML::ErrorMsg::MAP_VALUE, "a `:` cannot stand here; put text that holds `: ` in quotes", true},
    Wording{YAML::ErrorMsg::MAP_KEY, "a key cannot stand here; check the indentation", true},
    Wording{YAML::ErrorMsg::BLOCK_ENTRY, "a `-` cannot stand here; check the indentation", true},
    Wording{YAML::ErrorMsg::UNKNOWN_TOKEN, "this character cannot begin a value; put the text in quotes", true},
};

SourceError describe(const YAML::Exception& error, Places& places) {
  const std::size_t offset = places.offset(error.mark);
  const auto* wording = std::find_if(wordings.begin(), wordings.end(), [&](auto& w) { return w.theirs == error.msg; });
  if (wording == wordings.end()) {
    std::string theirs = error.msg;
    // Where it quotes a character, it may quote the first byte of several.
    if (const auto cut = find_invalid_utf8(theirs)) theirs.erase(theirs.find_last_not_of(" :", *cut - 1) + 1);
    return {places.at(offset), one_line("this is not YAML: " + theirs)};
  }
  const std::size_t start = places.line_start(offset);
  const std::size_t tab = places.text().substr(start, offset - start).find('\t');
  const std::size_t indent = places.text().find_first_not_of(" \t", start) - start;
  if (wording->may_be_tab && tab < indent) return {places.at(start + tab), "a tab cannot indent YAML; use spaces"};
  return {places.at(offset), std::string(wording->ours)};
}

std::optional<SourceError> refuse_bytes(std::string_view text) {
  auto refuse = [&](std::size_t offset, std::string reason) {
    // What comes before may be anything but is not wrong yet: valid UTF-8, so its characters can be counted.
    return SourceError{Places(text, {}).at(offset), std::move(reason)};
  };
  if (const auto bad = find_invalid_utf8(text)) return refuse(*bad, "this byte is not valid UTF-8");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r')
      return refuse(i, "control characters are not allowed; this one has code " + std::to_string(byte));
    // Some places of yaml-cpp take it for the end of a line, others for a character.
    if (byte == '\r' && !text.substr(i + 1).starts_with('\n'))
      return refuse(i, "a carriage return without a line feed; end lines with a line feed");
  }
  return std::nullopt;
}

std::expected<SourceNode, SourceError> parse(std::string_view text, const YamlLimits& limits, Places& places) {
  TreeBuilder builder(text, limits, places);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused& refused) {
    return std::unexpected(refused.error);
  } catch (const YAML::Exception& error) {
    return std::unexpected(describe(error, places));
  }
  auto root = builder.take();
  if (!root) return std::unexpected(SourceError{{1, 1}, "the document is empty"});
  return std::move(*root);
}

}  // namespace

std::expected<SourceNode, SourceError> read_yaml(std::string_view text, YamlLimits limits) {
  if (text.size() > limits.bytes_max)
    return std::unexpected(
        SourceError{{1, 1}, "the document is larger than " + std::to_string(limits.bytes_max) + " bytes"});
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  if (auto error = refuse_bytes(text)) return std::unexpected(std::move(*error));
  if (const auto joined = join_pairs(text)) {
    Places places(joined->text, joined->offsets);
    return parse(joined->text, limits, places);
  }
  Places places(text, {});
  return parse(text, limits, places);
}

}  // namespace pawl
