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
  // ${{ response... }} may stand in it: what the call answered, for the undo that the tool makes of this key.
  bool response = false;
  // The value of a key that is absent or null; empty when there is none.
  JsonText fallback = {};
};

struct ToolSpec {
  ToolName name;
  std::vector<ToolKey> keys;
  // Whether an attempt with this input can have an effect outside. Unknown means yes.
  enum class Writes { never, by_method, always } writes = Writes::always;
  // It starts programs on the server that the workflow names: only for tenants that the installation lets do so.
  bool runs_programs = false;
};

// by_method: reads are GET, HEAD and OPTIONS that carry nothing, and, of a tool with a `base_url`, plain questions to a
// model's provider (tool_spec.cc). All else is a write. A method that is absent or null is the key's fallback.
bool may_write(const ToolSpec& spec, const JsonText& input);
// `input` with the fallback of each key that is absent or null, so that what is judged is what is executed. Text that
// is not an object stays as it is.
JsonText with_fallbacks(const ToolSpec& spec, JsonText input);

class ToolCatalog {
 public:
  void add(ToolSpec spec);
  const ToolSpec* find(const ToolName& name) const;
  const std::vector<ToolSpec>& all() const { return specs_; }

  // Where workers come from outside, any well-formed name may be a tool of theirs, except one that looks like a slip
  // of the pen: a built-in's own name space (http.requst) is not theirs.
  void expect_remote_tools() { remote_ = true; }
  // The same, of workers that have these tools and no others.
  void expect_remote_tools(std::vector<ToolName> tools);
  bool may_be_remote(const ToolName& name) const;
  // Those of them, when they are known.
  const std::vector<ToolName>& remote_tools() const { return remote_tools_; }

 private:
  std::vector<ToolSpec> specs_;
  bool remote_ = false;
  bool knows_remote_ = false;
  std::vector<ToolName> remote_tools_;
};

// The gate that people open. No worker ever executes it.
inline const ToolName approval_tool{"approval"};
// Timers of the engine. `sleep` is the older spelling, with its duration in `with`.
inline const ToolName wait_tool{"wait"};
inline const ToolName sleep_tool{"sleep"};

}  // namespace pawl
