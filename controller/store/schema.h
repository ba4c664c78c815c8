#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/base/result.h"
#include "controller/store/sqlite_database.h"

namespace espalier::controller {

// The application id in the file's header, which marks a store of Espalier ("Espl").
inline constexpr std::int64_t kStoreApplicationId = 0x4573706c;

// The scripts that migrate a store from each version of its schema to the next, the first from an
// empty file (docs/formats.md has the tables).
std::span<const char* const> StoreMigrations();

// Migrates the database to the version after the last of `migrations`, in one transaction. Errors:
// kFailedPrecondition for a newer version or a foreign database; those of the database. On error
// nothing has changed.
Result<void> Migrate(Database& database, std::span<const char* const> migrations);

// Reads the version of a store that is not newer than this program. Errors: as Migrate.
Result<std::int64_t> ReadSchemaVersion(Database& database, std::span<const char* const> migrations);

// A counter of the table `meta`, which the migrations create. Errors: those of the database.
Result<std::uint64_t> ReadMeta(Database& database, std::string_view key);
Result<void> WriteMeta(Database& database, std::string_view key, std::uint64_t value);

}  // namespace espalier::controller
