// Programs for jq that ask for modules.
#pragma once

#include <string_view>

namespace pawl {

// jq would look for other files, and what it says tells which there are. Directives stand at the beginning only; for
// what jq calls `modulemeta` the word alone is enough.
bool reads_modules(std::string_view program);

// Why such a program is not run, after the name of its key.
inline constexpr std::string_view modules_refusal =
    "must not use import, include, module or modulemeta: a program reads its `input` and no files";

}  // namespace pawl
