#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "controller/store/sqlite_database.h"
#include "controller/store/store_limits.h"

namespace espalier::controller {

// Deletes the oldest data beyond the limits from a store's database, at most 1,000 rows of a kind
// in one call, so that changes do not wait for it. To be called inside a transaction. True: there
// is more. Errors: those of sqlite_database.h. Thread safety: one thread at a time; the database
// must outlive it.
class StorePruner {
 public:
  explicit StorePruner(Database& database) : database_(database) {}

  // Entries of the audit log and what they moved, by number and age. The latest entry stays.
  Result<bool> PruneAudit(WallTime now, const StoreLimits& limits);
  // Intents that were replaced before the revisions that are kept; `latest` is the present
  // revision.
  Result<bool> PruneRevisions(std::uint64_t latest, const StoreLimits& limits);

 private:
  // The last audit entry to prune; those up to `pruned` have gone already.
  Result<std::uint64_t> AuditToPrune(WallTime now, const StoreLimits& limits, std::uint64_t pruned);
  // Runs a DELETE statement and returns the number of deleted rows.
  Result<std::int64_t> Delete(const std::string& sql);

  Database& database_;
};

}  // namespace espalier::controller
