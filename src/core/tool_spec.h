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
  // ${{ secrets.NAME }} may stand in it: the tool sends it where it belongs, and repeats it nowhere.
  bool secrets = false;
};

struct ToolSpec {
  ToolName name;
  std::vector<ToolKey> keys;
  // Whether an attempt with this input can have an effect outside. Unknown means yes.
  enum class Writes { never, by_method, always } writes = Writes::always;
  // It starts programs on the server that the workflow names: only for tenants that the installation lets do so.
  bool runs_programs = false;
};

// by_method: `method` is GET, HEAD or OPTIONS -> a read; anything else, or none that can be read, is a write.
bool may_write(const ToolSpec& spec, const JsonText& input);

class ToolCatalog {
 public:
  void add(ToolSpec spec);
  const ToolSpec* find(const ToolName& name) const;
  const std::vector<ToolSpec>& all() const { return specs_; }

  // Where workers come from outside, any well-formed name may be a tool of theirs, except one that looks like a slip
  // of the pen: a built-in's own name space (http.requst) is not theirs.
  void expect_remote_tools() { remote_ = true; }
  bool may_be_remote(const ToolName& name) const;

 private:
  std::vector<ToolSpec> specs_;
  bool remote_ = false;
};

// The gate that people open. No worker ever executes it.
inline const ToolName approval_tool{"approval"};

}  // namespace pawl
