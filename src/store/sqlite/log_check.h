// Damage in the write-ahead log that a process left when it died.
//
// SQLite ends its recovery at the first frame whose checksum is wrong, and drops that one and all that follow without a
// word: this is how it drops a commit that a power failure cut off. Damage to a commit that was acknowledged looks the
// same, but for two witnesses, each of which is asked here:
//   - a frame of a later commit is there. It was written after the earlier one had been synced.
//   - the header of the shared memory (-shm) counts the frame. It is written after the sync.
// Without either, the newest commit alone cannot be told from one that was cut off.
#pragma once

#include <optional>
#include <string>

namespace pawl::sqlite {

// What is wrong with the log of this database; nothing when all is well, or there is no log. Before the first
// connection, which begins the shared memory anew, and not beside a process that writes.
std::optional<std::string> damage_in_log(const std::string& database);

}  // namespace pawl::sqlite
