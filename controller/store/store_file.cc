#include "controller/store/store_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "controller/intents/intent_text.h"
#include "controller/store/ledger_rows.h"
#include "controller/store/schema.h"
#include "controller/store/store_pruner.h"

namespace espalier::controller {
namespace {

// Limit on the events without a source, and on those of all sources together.
constexpr std::int64_t kMaxEvents = 50'000;
constexpr std::int64_t kMaxOfSource = 2'000;
// The events of each of the two groups that a start reads: half of what the controller keeps.
constexpr std::int64_t kEventsRead = 5'000;
// Events between two trims: a trim reads all rows that are kept.
constexpr std::size_t kTrimEvery = 1'000;

struct KindOfIntent {
  std::string_view name;
  IntentById Intents::*members;
};
constexpr std::array kKinds = {
    KindOfIntent{"failed_link", &Intents::failed_links},
    KindOfIntent{"failed_node", &Intents::failed_nodes},
    KindOfIntent{"drained_link", &Intents::drained_links},
    KindOfIntent{"drained_node", &Intents::drained_nodes},
    KindOfIntent{"restored_link", &Intents::restored_links},
    KindOfIntent{"job", &Intents::jobs},
    KindOfIntent{"weight", &Intents::weights},
    KindOfIntent{"policy", &Intents::policies},
    KindOfIntent{"steering", &Intents::steering},
    KindOfIntent{"maintenance", &Intents::maintenance},
};

std::int64_t Microseconds(WallTime time) { return time.time_since_epoch().count(); }

std::optional<std::int64_t> Microseconds(const std::optional<WallTime>& time) {
  return time ? std::optional(Microseconds(*time)) : std::nullopt;
}

WallTime Time(std::int64_t microseconds) {
  return WallTime(std::chrono::microseconds(microseconds));
}

std::optional<WallTime> Time(std::optional<std::int64_t> microseconds) {
  return microseconds ? std::optional(Time(*microseconds)) : std::nullopt;
}

std::int64_t Signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t Unsigned(std::int64_t value) { return static_cast<std::uint64_t>(value); }

}  // namespace

Result<StoreFile> StoreFile::Open(Database database) {
  if (Result<void> migrated = Migrate(database, StoreMigrations()); !migrated) {
    return Propagate(migrated);
  }
  return StoreFile(std::move(database));
}

Result<StoreFile> StoreFile::OpenAsItIs(Database database) {
  Result<std::int64_t> version = ReadSchemaVersion(database, StoreMigrations());
  if (!version) return Propagate(version);
  return StoreFile(std::move(database));
}

Result<void> StoreFile::Change(const std::function<Result<void>()>& work) {
  Result<void> result = database_.Transact(work);
  if (result) return result;
  // If only the last fsync failed, all frames of the commit may be in the WAL, and the next process
  // that reads them would take it as committed. Any later write replaces these frames; this one
  // does so at once.
  static_cast<void>(database_.Transact([&] {
    return database_.Execute("UPDATE meta SET value = value + 1 WHERE key = 'failed_commits'");
  }));
  return result;
}

Result<void> StoreFile::ReadLatestChange() {
  Result<std::int64_t> latest =
      database_.ReadInteger("SELECT ifnull(max(time_us), 0) FROM revision");
  if (!latest) return Propagate(latest);
  latest_change_ = Time(*latest);
  return {};
}

WallTime StoreFile::AfterLatestChange(WallTime now) {
  latest_change_ = std::max(now, latest_change_ + std::chrono::microseconds(1));
  return latest_change_;
}

Result<StoredState> StoreFile::Begin(WallTime now) {
  if (Result<void> read = ReadLatestChange(); !read) return Propagate(read);
  StoredState state;
  if (latest_change_ > now) state.change_to_come = latest_change_;
  Result<void> read = Change([&]() -> Result<void> {
    Result<std::uint64_t> epoch = ReadMeta(database_, "epoch");
    if (!epoch) return Propagate(epoch);
    Result<std::uint64_t> revision = ReadMeta(database_, "revision");
    if (!revision) return Propagate(revision);
    state.epoch = *epoch + 1;
    state.revision = *revision;
    Result<JobKey> secret = ReadOrDrawJobSecret();
    if (!secret) return Propagate(secret);
    state.job_secret = *secret;
    return WriteMeta(database_, "epoch", state.epoch);
  });
  if (!read) return Propagate(read);
  revision_ = state.revision;
  if (state.revision > 0) {
    Result<Intents> intents = ReadIntents(state.revision);
    if (!intents) return Propagate(intents);
    state.intents = std::move(*intents);
    Result<Statement> stamp =
        database_.Prepare("SELECT topology, topology_version FROM revision WHERE revision = ?");
    if (!stamp) return Propagate(stamp);
    if (Result<bool> row = stamp->Bind(Signed(state.revision)).Step(); !row) return Propagate(row);
    state.topology = {stamp->Text(0), stamp->Integer(1)};
  }
  Result<std::vector<StoredEvent>> events = ReadEvents();
  if (!events) return Propagate(events);
  state.events = std::move(*events);
  Result<ReportedLinks> reported = ReadReported();
  if (!reported) return Propagate(reported);
  state.reported_down = std::move(*reported);
  Result<std::vector<StoredBursts>> ledger = ReadLedger(database_);
  if (!ledger) return Propagate(ledger);
  state.ledger = std::move(*ledger);
  return state;
}

Result<JobKey> StoreFile::ReadOrDrawJobSecret() {
  Result<Statement> select = database_.Prepare("SELECT value FROM secret WHERE name = 'jobs'");
  if (!select) return Propagate(select);
  Result<bool> row = select->Step();
  if (!row) return Propagate(row);
  if (*row) {
    Result<JobKey> secret = JobKey::Parse(select->Text(0));
    if (secret) return secret;
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{}: the secret for the keys of jobs is damaged: {}", database_.path(),
                            secret.error().message));
  }
  const JobKey drawn = JobKey::Draw();
  Result<Statement> insert = database_.Prepare("INSERT INTO secret VALUES ('jobs', ?)");
  if (!insert) return Propagate(insert);
  Result<void> written = insert->Bind(std::string_view(drawn.ToText())).Run();
  if (!written) return Propagate(written);
  return drawn;
}

Result<Committed> StoreFile::Commit(const StoreChange& change, WallTime now) {
  Committed committed{.revision = revision_};
  Result<void> changed = Change([&]() -> Result<void> {
    Result<std::uint64_t> found = ReadMeta(database_, "revision");
    if (!found) return Propagate(found);
    if (*found != revision_) {
      return Fail(ErrorCode::kFailedPrecondition,
                  fmt::format("{}: is at revision {}, not {}: another controller has written to it "
                              "(stop one of the two)",
                              database_.path(), *found, revision_));
    }
    if (change.epoch) {
      Result<std::uint64_t> epoch = ReadMeta(database_, "epoch");
      if (!epoch) return Propagate(epoch);
      auto raised = WriteMeta(database_, "epoch", std::max(*epoch, *change.epoch));
      if (!raised) return raised;
    }
    if (change.intents) {
      committed.revision = revision_ + 1;
      Result<Statement> insert = database_.Prepare("INSERT INTO revision VALUES (?, ?, ?, ?)");
      if (!insert) return Propagate(insert);
      auto written = insert
                         ->Bind(Signed(committed.revision), Microseconds(AfterLatestChange(now)),
                                std::string_view(change.topology.name), change.topology.version)
                         .Run();
      if (written) written = WriteIntents(*change.intents, committed.revision);
      if (written) written = WriteMeta(database_, "revision", committed.revision);
      if (!written) return written;
    }
    if (change.reported_down) {
      if (auto written = WriteReported(*change.reported_down); !written) return written;
    }
    if (!change.audit) return {};
    Result<std::uint64_t> sequence =
        WriteAudit(*change.audit, change.intents ? committed.revision : 0);
    if (!sequence) return Propagate(sequence);
    committed.audit_sequence = *sequence;
    return {};
  });
  if (!changed) return Propagate(changed);
  revision_ = committed.revision;
  return committed;
}

Result<ReportedLinks> StoreFile::ReadReported() {
  Result<Statement> select = database_.Prepare("SELECT link, source, since_us FROM reported_link");
  if (!select) return Propagate(select);
  ReportedLinks links;
  Result<bool> row = select->Step();
  for (; row && *row; row = select->Step()) {
    links[select->Text(0)] = {select->Text(1), Time(select->Integer(2))};
  }
  if (!row) return Propagate(row);
  return links;
}

Result<void> StoreFile::WriteReported(const ReportedLinks& links) {
  if (auto cleared = database_.Execute("DELETE FROM reported_link"); !cleared) return cleared;
  Result<Statement> insert = database_.Prepare("INSERT INTO reported_link VALUES (?, ?, ?)");
  if (!insert) return Propagate(insert);
  for (const auto& [link, report] : links) {
    auto written = insert
                       ->Bind(std::string_view(link), std::string_view(report.source),
                              Microseconds(report.since))
                       .Run();
    if (!written) return written;
  }
  return {};
}

Result<void> StoreFile::WriteIntents(const Intents& intents, std::uint64_t revision) {
  Result<Intents> before = revision_ > 0 ? ReadIntents(revision_) : Result<Intents>(Intents{});
  if (!before) return Propagate(before);
  Result<Statement> end = database_.Prepare(
      "UPDATE intent SET to_revision = ? WHERE kind = ? AND id = ? AND to_revision IS NULL");
  if (!end) return Propagate(end);
  Result<Statement> begin =
      database_.Prepare("INSERT INTO intent VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?)");
  if (!begin) return Propagate(begin);
  for (const auto& [kind, members] : kKinds) {
    const IntentById& old = *before.*members;
    const IntentById& now = intents.*members;
    for (const auto& [id, intent] : old) {
      const auto kept = now.find(id);
      if (kept != now.end() && kept->second == intent) continue;
      auto ended = end->Bind(Signed(revision), kind, std::string_view(id)).Run();
      if (!ended) return ended;
    }
    for (const auto& [id, intent] : now) {
      const auto known = old.find(id);
      if (known != old.end() && known->second == intent) continue;
      auto begun = begin
                       ->Bind(kind, std::string_view(id), std::string_view(intent.reason),
                              std::string_view(intent.actor), Microseconds(intent.since),
                              Microseconds(intent.until), Signed(revision),
                              std::string_view(FormatIntentValue(intent.value)))
                       .Run();
      if (!begun) return begun;
    }
  }
  return {};
}

Result<std::uint64_t> StoreFile::WriteAudit(const AuditEntry& entry, std::uint64_t revision) {
  Result<std::int64_t> last = database_.ReadInteger("SELECT ifnull(max(sequence), 0) FROM audit");
  if (!last) return Propagate(last);
  Result<Statement> insert =
      database_.Prepare("INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!insert) return Propagate(insert);
  const std::int64_t refused = entry.result == AuditResult::kRefused ? 1 : 0;
  Result<void> written =
      insert
          ->Bind(*last + 1, Microseconds(entry.time), std::string_view(entry.actor),
                 std::string_view(entry.action), std::string_view(entry.target),
                 std::string_view(entry.reason), Microseconds(entry.until), refused,
                 std::string_view(entry.detail), Signed(revision))
          .Run();
  if (!written) return Propagate(written);
  return Unsigned(*last + 1);
}

Result<void> StoreFile::FinishAudit(std::uint64_t sequence, const std::vector<AuditMove>& moves) {
  return Change([&]() -> Result<void> {
    Result<Statement> insert = database_.Prepare("INSERT INTO audit_move VALUES (?, ?, ?, ?, ?)");
    if (!insert) return Propagate(insert);
    for (const AuditMove& move : moves) {
      auto written =
          insert
              ->Bind(Signed(sequence), std::string_view(move.flow), std::string_view(move.job),
                     std::string_view(move.from), std::string_view(move.to))
              .Run();
      if (!written) return written;
    }
    Result<Statement> finish = database_.Prepare("INSERT INTO audit_finished VALUES (?)");
    if (!finish) return Propagate(finish);
    return finish->Bind(Signed(sequence)).Run();
  });
}

Result<void> StoreFile::AppendEvents(const std::vector<StoredEvent>& events) {
  if (events.empty()) return {};
  return Change([&]() -> Result<void> {
    Result<Statement> insert =
        database_.Prepare("INSERT OR REPLACE INTO event VALUES (?, ?, ?, ?, ?)");
    if (!insert) return Propagate(insert);
    for (const StoredEvent& event : events) {
      auto written =
          insert
              ->Bind(Signed(event.sequence), Microseconds(event.time), std::string_view(event.kind),
                     std::string_view(event.text), std::string_view(event.source))
              .Run();
      if (!written) return written;
    }
    return TrimEvents(events);
  });
}

Result<void> StoreFile::TrimEvents(const std::vector<StoredEvent>& added) {
  std::set<std::string_view> sources;
  for (const StoredEvent& event : added) sources.insert(event.source);
  sources.erase("");
  Result<Statement> trim = database_.Prepare(
      "DELETE FROM event WHERE source = ?1 AND sequence <= (SELECT sequence FROM event WHERE "
      "source "
      "= ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?2)");
  if (!trim) return Propagate(trim);
  for (const std::string_view source : sources) {
    if (auto trimmed = trim->Bind(source, kMaxOfSource).Run(); !trimmed) return trimmed;
  }
  events_untrimmed_ += added.size();
  if (events_untrimmed_ < kTrimEvery) return {};
  events_untrimmed_ = 0;
  if (auto trimmed = trim->Bind(std::string_view(), kMaxEvents).Run(); !trimmed) return trimmed;
  Result<Statement> trim_all = database_.Prepare(
      "DELETE FROM event WHERE source != '' AND sequence <= (SELECT sequence FROM event WHERE "
      "source != '' ORDER BY sequence DESC LIMIT 1 OFFSET ?)");
  if (!trim_all) return Propagate(trim_all);
  return trim_all->Bind(kMaxEvents).Run();
}

Result<void> StoreFile::KeepLedger(const std::vector<StoredBursts>& parts, WallTime oldest) {
  return Change([&] { return WriteLedger(database_, parts, oldest); });
}

Result<std::vector<StoredEvent>> StoreFile::ReadEvents() {
  std::vector<StoredEvent> events;
  for (const char* which : {"source = ''", "source != ''"}) {
    Result<Statement> select = database_.Prepare(
        fmt::format("SELECT sequence, time_us, kind, text, source FROM event WHERE {} ORDER BY "
                    "sequence DESC LIMIT ?",
                    which));
    if (!select) return Propagate(select);
    select->Bind(kEventsRead);
    Result<bool> row = select->Step();
    for (; row && *row; row = select->Step()) {
      events.push_back({Unsigned(select->Integer(0)), Time(select->Integer(1)), select->Text(2),
                        select->Text(3), select->Text(4)});
    }
    if (!row) return Propagate(row);
  }
  std::ranges::sort(events, {}, &StoredEvent::sequence);
  return events;
}

Result<std::vector<AuditEntry>> StoreFile::ReadAudit(std::uint64_t since, std::size_t most) {
  Result<Statement> select = database_.Prepare(
      "SELECT audit.sequence, time_us, actor, action, target, reason, until_us, refused, detail, "
      "revision, audit_finished.sequence FROM audit LEFT JOIN audit_finished USING (sequence) "
      "WHERE audit.sequence > max(?, (SELECT value FROM meta WHERE key = 'audit_pruned')) ORDER BY "
      "audit.sequence DESC LIMIT ?");
  if (!select) return Propagate(select);
  std::vector<AuditEntry> entries;
  select->Bind(Signed(since), static_cast<std::int64_t>(most));
  Result<bool> row = select->Step();
  for (; row && *row; row = select->Step()) {
    AuditEntry& entry = entries.emplace_back();
    entry.sequence = Unsigned(select->Integer(0));
    entry.time = Time(select->Integer(1));
    entry.actor = select->Text(2);
    entry.action = select->Text(3);
    entry.target = select->Text(4);
    entry.reason = select->Text(5);
    entry.until = Time(select->OptionalInteger(6));
    if (select->Integer(7) != 0) {
      entry.result = AuditResult::kRefused;
    } else if (select->OptionalInteger(10)) {
      entry.result = AuditResult::kDone;
    }
    entry.detail = select->Text(8);
    entry.revision = Unsigned(select->Integer(9));
  }
  if (!row) return Propagate(row);
  std::reverse(entries.begin(), entries.end());
  for (AuditEntry& entry : entries) {
    if (Result<void> read = ReadMoves(entry); !read) return Propagate(read);
  }
  return entries;
}

Result<void> StoreFile::ReadMoves(AuditEntry& entry) {
  Result<Statement> select = database_.Prepare(
      "SELECT flow, job, from_via, to_via FROM audit_move WHERE sequence = ? ORDER BY rowid");
  if (!select) return Propagate(select);
  select->Bind(Signed(entry.sequence));
  Result<bool> row = select->Step();
  for (; row && *row; row = select->Step()) {
    entry.moves.push_back({select->Text(0), select->Text(1), select->Text(2), select->Text(3)});
  }
  if (!row) return Propagate(row);
  return {};
}

Result<Intents> StoreFile::ReadIntents(std::uint64_t revision) {
  Result<Statement> known = database_.Prepare(
      "SELECT 1 FROM revision WHERE revision = ? AND revision > (SELECT value FROM meta WHERE key "
      "= "
      "'revision_pruned')");
  if (!known) return Propagate(known);
  Result<bool> exists = known->Bind(Signed(revision)).Step();
  if (!exists) return Propagate(exists);
  if (!*exists) {
    return Fail(
        ErrorCode::kNotFound,
        fmt::format("revision {} of the intents does not exist, or was deleted because of its age "
                    "(`espalier audit` lists revisions)",
                    revision));
  }
  Result<Statement> select = database_.Prepare(
      "SELECT kind, id, reason, actor, since_us, until_us, detail FROM intent WHERE from_revision "
      "<= ?1 "
      "AND (to_revision IS NULL OR to_revision > ?1)");
  if (!select) return Propagate(select);
  Intents intents;
  select->Bind(Signed(revision));
  Result<bool> row = select->Step();
  for (; row && *row; row = select->Step()) {
    const std::string kind = select->Text(0);
    const auto* const known_kind = std::find_if(
        kKinds.begin(), kKinds.end(), [&](const KindOfIntent& each) { return each.name == kind; });
    if (known_kind == kKinds.end()) {
      return Fail(
          ErrorCode::kFailedPrecondition,
          fmt::format("{}: contains an intent of the unknown kind \"{}\" (restore a backup)",
                      database_.path(), kind));
    }
    const std::string id = select->Text(1);
    (intents.*known_kind->members)[id] = {
        select->Text(2), select->Text(3), Time(select->Integer(4)),
        Time(select->OptionalInteger(5)),
        ParseIntentValue(known_kind->members, id, select->Text(6))};
  }
  if (!row) return Propagate(row);
  return intents;
}

Result<StoreFile::Summary> StoreFile::Summarise() {
  Summary summary;
  Result<std::int64_t> version = ReadSchemaVersion(database_, StoreMigrations());
  if (!version) return Propagate(version);
  summary.schema_version = *version;
  Result<std::uint64_t> epoch = ReadMeta(database_, "epoch");
  if (!epoch) return Propagate(epoch);
  summary.epoch = *epoch;
  Result<std::uint64_t> revision = ReadMeta(database_, "revision");
  if (!revision) return Propagate(revision);
  summary.revision = *revision;
  for (const auto& [count, sql] :
       {std::pair(&summary.intents, "SELECT count(*) FROM intent WHERE to_revision IS NULL"),
        std::pair(&summary.audit_entries, "SELECT count(*) FROM audit"),
        std::pair(&summary.events, "SELECT count(*) FROM event")}) {
    Result<std::int64_t> rows = database_.ReadInteger(sql);
    if (!rows) return Propagate(rows);
    *count = *rows;
  }
  return summary;
}

Result<bool> StoreFile::PruneSome(WallTime now, const StoreLimits& limits) {
  bool has_more = false;
  Result<void> pruned = Change([&]() -> Result<void> {
    StorePruner pruner(database_);
    Result<bool> audit = pruner.PruneAudit(now, limits);
    if (!audit) return Propagate(audit);
    Result<bool> revisions = pruner.PruneRevisions(revision_, limits);
    if (!revisions) return Propagate(revisions);
    has_more = *audit || *revisions;
    return {};
  });
  if (!pruned) return Propagate(pruned);
  return has_more;
}

}  // namespace espalier::controller
