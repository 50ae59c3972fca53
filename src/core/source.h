// A document as its author wrote it: values with the place each stands at, so that an error can point.
// Readers (src/yaml) make it; core only looks at it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pawl {

struct Place {
  int line = 0;    // from 1
  int column = 0;  // from 1
};

struct SourceNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  Place place;
  std::string scalar;
  bool quoted = false;  // "5" is text, 5 is a number
  // The text stands in the document as it stands in `scalar`, on one line, so a column inside it can be counted.
  bool verbatim = false;
  std::vector<SourceNode> items;
  struct Entry;
  std::vector<Entry> entries;  // in the author's order
};

struct SourceNode::Entry {
  std::string key;
  Place place;  // of the key
  SourceNode value;
};

struct SourceError {
  Place place;
  std::string reason;
};

// workflow.yaml:7:12: reason
std::string print_error(std::string_view file, const SourceError& error);
// The same, one a line.
std::string print_errors(std::string_view file, const std::vector<SourceError>& errors);

}  // namespace pawl
