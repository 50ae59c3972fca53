// Pages of the documentation that are printed from the tables in this folder: docs/lifecycles.md, docs/providers.md and
// docs/errors.md hold these texts, and a test fails when they differ.
#pragma once

#include <string>

#include "core/provider.h"

namespace pawl {

// The words of every vocabulary for every stored status, as Markdown tables.
std::string run_projection_reference();
std::string step_projection_reference();

// What a provider's own states are called here. Those of `native` and `external` are the statuses of runs.
std::string provider_reference(Provider provider);

// One Markdown section a code of `error_codes`: what it means, and what to do about it.
std::string error_reference();
// The same for RefusalCode, one level deeper.
std::string refusal_reference();

}  // namespace pawl
