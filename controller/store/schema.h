#pragma once

#include <cstdint>
#include <span>

#include "common/base/result.h"
#include "controller/store/sqlite_database.h"

namespace espalier::controller {

// In the file's header: this database is a store of Espalier's ("Espl").
inline constexpr std::int64_t kStoreApplicationId = 0x4573706c;

// The scripts that bring a store from each version of its schema to the next, the first from an
// empty file (docs/formats.md has the tables).
std::span<const char* const> StoreMigrations();

// Brings the database to the version after the last of `migrations`, in one transaction.
// Errors: kFailedPrecondition for a newer version or a database that is none of Espalier's; the
// database's own. On error nothing has changed.
Result<void> Migrate(Database& database, std::span<const char* const> migrations);

// The version, if it is a store and no newer than this program. Errors: as Migrate.
Result<std::int64_t> ReadSchemaVersion(Database& database, std::span<const char* const> migrations);

}  // namespace espalier::controller
