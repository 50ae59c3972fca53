// What a workflow may ask of a tool: its name, the keys of its `with`, and whether it can change the world.
// The tools themselves live in src/tools; validation and the scheduler need only this.
#pragma once

#include <string>
#include <vector>

#include "core/id.h"
#include "core/json.h"

namespace pawl {

struct ToolKey {
  std::string name;
  bool required = false;
  // The JSON kinds a literal may have here; an expression may stand for any of them.
  enum class Kind { any, text, number, boolean, list, map, text_list, text_map, duration } kind = Kind::any;
};

struct ToolSpec {
  ToolName name;
  std::vector<ToolKey> keys;
  // Whether an attempt with this input can have an effect outside. Unknown means yes.
  enum class Writes { never, by_method, always } writes = Writes::always;
};

// by_method: `method` is GET, HEAD or OPTIONS -> a read; anything else, or none that can be read, is a write.
bool may_write(const ToolSpec& spec, const JsonText& input);

class ToolCatalog {
 public:
  void add(ToolSpec spec);
  const ToolSpec* find(const ToolName& name) const;
  const std::vector<ToolSpec>& all() const { return specs_; }

 private:
  std::vector<ToolSpec> specs_;
};

// The gate that people open. No worker ever executes it.
inline const ToolName approval_tool{"approval"};

}  // namespace pawl
