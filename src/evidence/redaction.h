// Events without what they carry: inputs, outputs, questions, answers, the fields of actions and what came back are
// replaced by their digest and size. The result is an event like any other, so that a run can be folded from it.
//
//   {"x":1}  becomes  {"bytes":7,"sha256":"..."}
//
// Of an output that reports what a model cost, {"usage":{"provider":...,"model":...,"cost_usd":...}}, those figures
// stay, as "usage": they are what a bundle's account of costs is made from.
#pragma once

#include <string>
#include <vector>

#include "core/event.h"

namespace pawl {

struct Redacted {
  RunEvent event;
  std::vector<std::string> names;  // what was replaced; none when the event is as it was
};

Redacted redact(const RunEvent& event);

// The figures in an output, or in what redact() left of one: objects with provider, model and whatever else is known.
std::vector<Json> usage_in(const JsonText& output);

}  // namespace pawl
