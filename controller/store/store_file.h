#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "controller/store/sqlite_database.h"
#include "controller/store/store.h"
#include "controller/store/store_limits.h"

namespace espalier::controller {

// A store in an SQLite database, with the contract of Store, but each call blocks until it is done.
// Complexity: a commit costs as many rows as intents change, and one fsync.
// Thread safety: one thread at a time.
class StoreFile {
 public:
  // Migrates the schema to this program's version. Errors: those of sqlite_database.h and schema.h.
  static Result<StoreFile> Open(Database database);
  // Opens the store for reading only: a schema older than this program's stays as it is.
  static Result<StoreFile> OpenAsItIs(Database database);

  // If `now` is earlier than the latest revision, the state says so, and changes get times after
  // that revision: only their order matters.
  Result<StoredState> Begin(WallTime now);
  Result<Committed> Commit(const StoreChange& change, WallTime now);
  Result<void> FinishAudit(std::uint64_t sequence, const std::vector<AuditMove>& moves);
  Result<void> AppendEvents(const std::vector<StoredEvent>& events);
  Result<void> KeepLedger(const std::vector<StoredBursts>& parts, WallTime oldest);
  Result<std::vector<AuditEntry>> ReadAudit(std::uint64_t since, std::size_t most);
  Result<Intents> ReadIntents(std::uint64_t revision);

  // Deletes some of the data beyond the limits, oldest first, in one short transaction. True: there
  // is more. A crash in between leaves unused rows, which the next call deletes.
  Result<bool> PruneSome(WallTime now, const StoreLimits& limits);

  // A summary of the file for operators (espalier store check).
  struct Summary {
    std::int64_t schema_version = 0;
    std::uint64_t epoch = 0;
    std::uint64_t revision = 0;
    std::int64_t intents = 0;
    std::int64_t audit_entries = 0;
    std::int64_t events = 0;
  };
  Result<Summary> Summarise();

  Database& database() { return database_; }

 private:
  explicit StoreFile(Database database) : database_(std::move(database)) {}
  // Runs Transact; after a failure it overwrites data that may have reached the disk.
  Result<void> Change(const std::function<Result<void>()>& work);
  Result<JobKey> ReadOrDrawJobSecret();
  Result<void> WriteIntents(const Intents& intents, std::uint64_t revision);
  Result<std::uint64_t> WriteAudit(const AuditEntry& entry, std::uint64_t revision);
  Result<ReportedLinks> ReadReported();
  Result<void> WriteReported(const ReportedLinks& links);
  Result<void> ReadLatestChange();
  WallTime AfterLatestChange(WallTime now);
  Result<void> TrimEvents(const std::vector<StoredEvent>& added);
  Result<std::vector<StoredEvent>> ReadEvents();
  Result<void> ReadMoves(AuditEntry& entry);

  Database database_;
  std::uint64_t revision_ = 0;
  WallTime latest_change_{};
  std::size_t events_untrimmed_ = 0;
};

}  // namespace espalier::controller
