#include "controller/store/schema.h"

#include <fmt/format.h>

#include <array>

namespace espalier::controller {
namespace {

// An intent holds from `from_revision` until, and without, `to_revision`: every earlier set can be
// read, and a change costs as many rows as it changes intents.
constexpr const char* kVersion1 = R"(
CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('epoch', 0), ('revision', 0), ('failed_commits', 0);
CREATE TABLE revision(
  revision INTEGER PRIMARY KEY,
  time_us INTEGER NOT NULL,
  topology TEXT NOT NULL,
  topology_version INTEGER NOT NULL);
CREATE TABLE intent(
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  reason TEXT NOT NULL,
  actor TEXT NOT NULL,
  since_us INTEGER NOT NULL,
  until_us INTEGER,
  from_revision INTEGER NOT NULL REFERENCES revision(revision),
  to_revision INTEGER REFERENCES revision(revision));
CREATE UNIQUE INDEX intent_in_force ON intent(kind, id) WHERE to_revision IS NULL;
CREATE TABLE audit(
  sequence INTEGER PRIMARY KEY,
  time_us INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  reason TEXT NOT NULL,
  until_us INTEGER,
  refused INTEGER NOT NULL,
  detail TEXT NOT NULL,
  revision INTEGER NOT NULL);
CREATE TABLE audit_finished(sequence INTEGER PRIMARY KEY REFERENCES audit(sequence));
CREATE TABLE audit_move(
  sequence INTEGER NOT NULL REFERENCES audit(sequence),
  flow TEXT NOT NULL,
  job TEXT NOT NULL,
  from_via TEXT NOT NULL,
  to_via TEXT NOT NULL);
CREATE INDEX audit_move_of ON audit_move(sequence);
CREATE TRIGGER audit_keeps BEFORE DELETE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_finished_keeps BEFORE DELETE ON audit_finished
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_finished_stays BEFORE UPDATE ON audit_finished
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_move_keeps BEFORE DELETE ON audit_move
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_move_stays BEFORE UPDATE ON audit_move
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TABLE event(
  sequence INTEGER PRIMARY KEY,
  time_us INTEGER NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL);
)";

// The detail of an intent that is more than a name, such as a job.
constexpr const char* kVersion2 = "ALTER TABLE intent ADD COLUMN detail TEXT NOT NULL DEFAULT '';";

// The same tables. From this version on, intents can be weights and policies.
constexpr const char* kVersion3 = "";

// The same tables. From this version on, the detail of a job has its listen ports.
constexpr const char* kVersion4 = "";

// Links that a telemetry feed reported as down. They are not intents.
constexpr const char* kVersion5 = R"(
CREATE TABLE reported_link(
  link TEXT PRIMARY KEY,
  source TEXT NOT NULL,
  since_us INTEGER NOT NULL) WITHOUT ROWID;
)";

// The audit log stays append-only, except that meta records up to where it is pruned. Events have a
// source, so that one source's events do not displace those of others. The keys of jobs are derived
// from the secret.
constexpr const char* kVersion6 = R"(
INSERT INTO meta VALUES ('audit_pruned', 0), ('revision_pruned', 0);
DROP TRIGGER audit_keeps;
DROP TRIGGER audit_finished_keeps;
DROP TRIGGER audit_move_keeps;
CREATE TRIGGER audit_keeps BEFORE DELETE ON audit
  WHEN old.sequence > (SELECT value FROM meta WHERE key = 'audit_pruned')
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_finished_keeps BEFORE DELETE ON audit_finished
  WHEN old.sequence > (SELECT value FROM meta WHERE key = 'audit_pruned')
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_move_keeps BEFORE DELETE ON audit_move
  WHEN old.sequence > (SELECT value FROM meta WHERE key = 'audit_pruned')
  BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE INDEX intent_from ON intent(from_revision);
CREATE INDEX intent_ended ON intent(to_revision) WHERE to_revision IS NOT NULL;
ALTER TABLE event ADD COLUMN source TEXT NOT NULL DEFAULT '';
CREATE INDEX event_of ON event(source, sequence);
CREATE TABLE secret(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
)";

// The same tables. From this version on, intents can be about steering, and
// maintenance windows.
constexpr const char* kVersion7 = "";

// What bursts cost, which the controller remembers for a day.
constexpr const char* kVersion8 = R"(
CREATE TABLE ledger(
  begin_us INTEGER NOT NULL,
  job TEXT NOT NULL,
  placing TEXT NOT NULL,
  sums TEXT NOT NULL,
  PRIMARY KEY(begin_us, job, placing)) WITHOUT ROWID;
)";

constexpr std::array kMigrations = {kVersion1, kVersion2, kVersion3, kVersion4,
                                    kVersion5, kVersion6, kVersion7, kVersion8};

Result<bool> IsEmpty(Database& database) {
  Result<std::int64_t> tables = database.ReadInteger("SELECT count(*) FROM sqlite_schema");
  if (!tables) return Propagate(tables);
  return *tables == 0;
}

}  // namespace

std::span<const char* const> StoreMigrations() { return kMigrations; }

Result<std::int64_t> ReadSchemaVersion(Database& database,
                                       std::span<const char* const> migrations) {
  Result<std::int64_t> application = database.ReadInteger("PRAGMA application_id");
  if (!application) return Propagate(application);
  Result<std::int64_t> version = database.ReadInteger("PRAGMA user_version");
  if (!version) return Propagate(version);
  if (*application != kStoreApplicationId) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{}: is a database, but not a store of Espalier (name another file)",
                            database.path()));
  }
  const auto newest = static_cast<std::int64_t>(migrations.size());
  if (*version < 1 || *version > newest) {
    return Fail(
        ErrorCode::kFailedPrecondition,
        fmt::format("{}: its schema has version {}, but this program reads 1 to {} (upgrade "
                    "Espalier, or restore a backup of the older version)",
                    database.path(), *version, newest));
  }
  return version;
}

Result<void> Migrate(Database& database, std::span<const char* const> migrations) {
  return database.Transact([&]() -> Result<void> {
    Result<bool> is_empty = IsEmpty(database);
    if (!is_empty) return Propagate(is_empty);
    std::int64_t version = 0;
    if (!*is_empty) {
      Result<std::int64_t> found = ReadSchemaVersion(database, migrations);
      if (!found) return Propagate(found);
      version = *found;
    }
    const auto scripts = migrations.subspan(static_cast<std::size_t>(version));
    if (scripts.empty()) return {};  // the file stays unchanged
    for (const char* script : scripts) {
      if (Result<void> done = database.Execute(script); !done) return done;
    }
    return database.Execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                        kStoreApplicationId, migrations.size()));
  });
}

Result<std::uint64_t> ReadMeta(Database& database, std::string_view key) {
  Result<std::int64_t> value =
      database.ReadInteger(fmt::format("SELECT value FROM meta WHERE key = '{}'", key));
  if (!value) return Propagate(value);
  return static_cast<std::uint64_t>(*value);
}

Result<void> WriteMeta(Database& database, std::string_view key, std::uint64_t value) {
  Result<Statement> update = database.Prepare("UPDATE meta SET value = ? WHERE key = ?");
  if (!update) return Propagate(update);
  return update->Bind(static_cast<std::int64_t>(value), key).Run();
}

}  // namespace espalier::controller
