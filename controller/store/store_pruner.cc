#include "controller/store/store_pruner.h"

#include <fmt/format.h>

#include <algorithm>

#include "controller/store/schema.h"

namespace espalier::controller {
namespace {

constexpr std::int64_t kRowsAtOnce = 1'000;

std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

Result<std::int64_t> StorePruner::Delete(const std::string& sql) {
  if (Result<void> done = database_.Execute(sql); !done) return Propagate(done);
  return database_.ReadInteger("SELECT changes()");
}

// The last audit entry to prune, by number or age; the latest entry is never pruned.
Result<std::uint64_t> StorePruner::AuditToPrune(WallTime now, const StoreLimits& limits,
                                                std::uint64_t pruned) {
  Result<std::int64_t> latest = database_.ReadInteger("SELECT ifnull(max(sequence), 0) FROM audit");
  if (!latest) return Propagate(latest);
  // Moves are appended in the order in which actions finish, so row ids count them.
  Result<std::int64_t> crowded = database_.ReadInteger(fmt::format(
      "SELECT ifnull((SELECT sequence FROM audit_move WHERE rowid <= (SELECT max(rowid) "
      "FROM audit_move) - {} ORDER BY rowid DESC LIMIT 1), 0)",
      limits.audit_moves));
  if (!crowded) return Propagate(crowded);
  const auto oldest_time = (now - limits.audit_age).time_since_epoch().count();
  Result<std::int64_t> old = database_.ReadInteger(
      fmt::format("SELECT ifnull(max(sequence), 0) FROM (SELECT sequence, time_us FROM audit WHERE "
                  "sequence > {} "
                  "AND sequence <= {} ORDER BY sequence LIMIT {}) WHERE time_us < {}",
                  pruned, *latest - limits.audit_kept, kRowsAtOnce, oldest_time));
  if (!old) return Propagate(old);
  const std::int64_t last = std::min({std::max({*crowded, *old, *latest - limits.audit_moves}),
                                      *latest - 1, Signed(pruned) + kRowsAtOnce});
  return static_cast<std::uint64_t>(std::max(last, Signed(pruned)));
}

Result<bool> StorePruner::PruneAudit(WallTime now, const StoreLimits& limits) {
  Result<std::uint64_t> pruned = ReadMeta(database_, "audit_pruned");
  if (!pruned) return Propagate(pruned);
  Result<std::uint64_t> last = AuditToPrune(now, limits, *pruned);
  if (!last) return Propagate(last);
  if (*last > *pruned) {  // the pruned entries are not read from here on
    if (auto written = WriteMeta(database_, "audit_pruned", *last); !written)
      return Propagate(written);
  }
  Result<std::int64_t> moves = Delete(
      fmt::format("DELETE FROM audit_move WHERE rowid IN (SELECT rowid FROM audit_move WHERE "
                  "sequence <= {} LIMIT {})",
                  *last, kRowsAtOnce));
  if (!moves) return Propagate(moves);
  if (*moves == kRowsAtOnce) return true;
  Result<std::int64_t> entries = Delete(fmt::format(
      "DELETE FROM audit_finished WHERE sequence <= {0}; DELETE FROM audit WHERE sequence <= {0}",
      *last));
  if (!entries) return Propagate(entries);
  return *entries > 0;
}

Result<bool> StorePruner::PruneRevisions(std::uint64_t latest, const StoreLimits& limits) {
  Result<std::uint64_t> pruned = ReadMeta(database_, "revision_pruned");
  if (!pruned) return Propagate(pruned);
  const std::int64_t last = std::max(Signed(*pruned), Signed(latest) - limits.revisions);
  if (last > Signed(*pruned)) {
    auto written = WriteMeta(database_, "revision_pruned", static_cast<std::uint64_t>(last));
    if (!written) return Propagate(written);
  }
  Result<std::int64_t> intents = Delete(fmt::format(
      "DELETE FROM intent WHERE rowid IN (SELECT rowid FROM intent WHERE to_revision IS "
      "NOT NULL AND to_revision <= {} LIMIT {})",
      last, kRowsAtOnce));
  if (!intents) return Propagate(intents);
  if (*intents == kRowsAtOnce) return true;
  // A revision with an intent that is still in force stays, although its set cannot be read.
  Result<std::int64_t> revisions = Delete(
      fmt::format("DELETE FROM revision WHERE revision IN (SELECT revision FROM revision WHERE "
                  "revision < {} AND NOT EXISTS (SELECT 1 FROM intent WHERE from_revision = "
                  "revision.revision) LIMIT {})",
                  last, kRowsAtOnce));
  if (!revisions) return Propagate(revisions);
  return *revisions == kRowsAtOnce;
}

}  // namespace espalier::controller
