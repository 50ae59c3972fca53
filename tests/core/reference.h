// Parts of docs/lifecycles.md, docs/providers.md and docs/errors.md, printed from the tables of src/core and, for
// errors, from the advice in reference.cc. A new error code or refusal does not compile without its advice.
#pragma once

#include <string>

#include "core/provider.h"

namespace pawl::tests {

// The words of every vocabulary for every stored status, as Markdown tables.
std::string run_projection_reference();
std::string step_projection_reference();

// What a provider's own states are called here. Those of `native` and `external` are the statuses of runs.
std::string provider_reference(Provider provider);

// One Markdown section a code of `error_codes`: what it means, and what to do about it.
std::string error_reference();
// The same for RefusalCode, one level deeper.
std::string refusal_reference();

}  // namespace pawl::tests
