// What is checked of a store before anything of it is served or continued: the tenants, all workflows, and the newest
// runs with the rows of their approvals, receipts and requests. It takes the time of reading the tenants' own streams
// and the frames that are kept (8 MiB as a rule), however many runs there are; the rest is checked when it is loaded
// (guarded_store.h) and in the background (background_check.h).
#pragma once

#include <string>

#include "store/store.h"

namespace pawl {

// Stops the command when any of it is not what the journal says. Requires a store that stands still: a view, or one
// that nobody writes to yet. `where` is the folder or database, `look` the command that names everything that is wrong.
void check_at_start(Store& store, const std::string& where, const std::string& look);

}  // namespace pawl
