#pragma once

#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "controller/store/sqlite_database.h"
#include "controller/store/store.h"

namespace espalier::controller {

// The table of the ledger in the store's database. Errors: those of the database.

// Reads all parts, oldest first.
Result<std::vector<StoredBursts>> ReadLedger(Database& database);

// Store::KeepLedger, within a transaction of the caller.
Result<void> WriteLedger(Database& database, const std::vector<StoredBursts>& parts,
                         WallTime oldest);

}  // namespace espalier::controller
