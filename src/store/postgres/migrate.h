// Brings a database's tables to this pawl's version: by whichever server comes first, in one transaction.
#pragma once

#include "store/postgres/connection.h"

namespace pawl::postgres {

// Throws StoreFailure when the database belongs to a newer pawl.
void migrate(Connection& connection, const Address& address);
// For those who only read. Throws StoreFailure when the tables are of another version, or not there.
void require_version(Connection& connection, const Address& address);

}  // namespace pawl::postgres
