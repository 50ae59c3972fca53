// From the schema of an older pawl to today's (schema.h).
#pragma once

#include "store/sqlite/connection.h"

namespace pawl::sqlite {

// One numbered step a schema version, all in one transaction; `version` 0 is a database without tables.
void migrate(Connection& connection, int version);

// The first databases of version 1 kept what is ready in a table of its own. Nothing but a migration can read them.
bool has_first_layout(Connection& connection);

}  // namespace pawl::sqlite
