// From the schema of an older pawl to today's (schema.h).
#pragma once

#include <string>

#include "store/sqlite/connection.h"

namespace pawl::sqlite {

// One numbered step a schema version, all in one transaction; `version` 0 is a database without tables.
void migrate(Connection& connection, int version);

// The first table or index of today's schema that the database lacks, or has with another definition; empty when there
// is none. Another definition could drop rows that are written, or find others than are asked for.
std::string find_changed_definition(Connection& connection);

// The first databases of version 1 kept what is ready in a table of its own. Nothing but a migration can read them.
bool has_first_layout(Connection& connection);

}  // namespace pawl::sqlite
