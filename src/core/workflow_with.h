// A step's `with`: what its author gives to the tool, checked against what the tool says it takes.
#pragma once

#include <functional>
#include <string>

#include "core/source_reader.h"
#include "core/tool_spec.h"

namespace pawl {

// The `with` of `step` as JSON; an empty map when it has none. `spec` is null when the tool is not known.
Json read_with(SourceReader& reader, const SourceNode& step, const ToolSpec* spec);

// Every secret that an expression under `node` names, and where.
void for_each_secret(const SourceNode& node, const std::function<void(const std::string& secret, Place place)>& see);
// Refuses every secret under `node`, with this reason.
void refuse_secrets(SourceReader& reader, const SourceNode& node, std::string_view reason);
// Refuses every expression under `node` that names the response of a call.
void refuse_response(SourceReader& reader, const SourceNode& node);
// Refuses every secret in those keys of a `with` in which the tool takes none.
void check_secret_keys(SourceReader& reader, const SourceNode& with, const ToolSpec& spec);

// Whether rendering may change it.
bool has_template_inside(const Json& value);

}  // namespace pawl
