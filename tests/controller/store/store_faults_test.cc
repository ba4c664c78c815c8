// Acknowledged changes survive every crash, and failed ones have changed nothing, whichever
// operation of the disk fails and wherever the process is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "controller/store/store_file.h"
#include "controller/store/store_tools.h"
#include "tests/controller/store/crash_disk.h"
#include "tests/temporary_folder.h"

namespace espalier::controller {
namespace {

using Fault = CrashDisk::Fault;

const WallTime kNow{std::chrono::microseconds(1'795'253'938'907'654)};

// The intents of a revision: every set differs from the one before it in a few members.
Intents IntentsOf(std::uint64_t revision) {
  Intents intents;
  std::mt19937_64 random(revision);
  for (int i = 0; i < 12; ++i) {
    // Reasons are long, so that a commit is many pages.
    const Intent intent{std::string(random() % 900, 'x'), "user ada", kNow, std::nullopt};
    const std::string id = "link" + std::to_string(i);
    if (random() % 3 == 0) intents.failed_links[id] = intent;
    if (random() % 3 == 0) intents.drained_nodes[id] = intent;
    Intent setting = intent;
    const auto number = static_cast<std::uint32_t>(random() % 1'000);
    setting.value = JobWeight{number};
    if (random() % 3 == 0) intents.weights["job" + std::to_string(i)] = setting;
    setting.value = UnreadableValue{std::to_string(number)};  // there is no such policy
    if (random() % 3 == 0) intents.policies["policy" + std::to_string(i)] = setting;
  }
  return intents;
}

StoreChange ChangeTo(std::uint64_t revision) {
  StoreChange change;
  change.intents = IntentsOf(revision);
  change.topology = {"lab", static_cast<std::int64_t>(revision)};
  change.audit.emplace();
  change.audit->action = "fail link";
  change.audit->target = std::to_string(revision);
  return change;
}

// Returns the revision in force after checking its intents and its entry in the audit log.
std::uint64_t CheckedRevision(StoreFile& file) {
  EXPECT_TRUE(file.database().CheckStructure().has_value());
  Result<StoredState> begun = file.Begin(kNow);
  EXPECT_TRUE(begun.has_value()) << begun.error().message;
  if (!begun) return UINT64_MAX;
  if (begun->revision > 0) {
    EXPECT_EQ(begun->intents, IntentsOf(begun->revision));
  }
  const auto audit = file.ReadAudit(0, 1'000'000);
  EXPECT_TRUE(audit.has_value());
  EXPECT_EQ(audit->size(), begun->revision);
  return begun->revision;
}

Result<StoreFile> OpenOn(const CrashDisk& disk) {
  Result<Database> database = Database::Open("store.db", {.vfs = disk.name()});
  if (!database) return Propagate(database);
  return StoreFile::Open(std::move(*database));
}

// Runs the calls of a controller until one fails.
struct Progress {
  std::uint64_t acknowledged = 0;
  std::optional<Error> error;
};
Progress Work(CrashDisk& disk, std::uint64_t until) {
  Progress run;
  const auto failed = [&](const Error& error) {
    run.error = error;
    return run;
  };
  Result<StoreFile> file = OpenOn(disk);
  if (!file) return failed(file.error());
  Result<StoredState> begun = file->Begin(kNow);
  if (!begun) return failed(begun.error());
  run.acknowledged = begun->revision;
  while (run.acknowledged < until) {
    Result<Committed> committed = file->Commit(ChangeTo(run.acknowledged + 1), kNow);
    if (!committed) return failed(committed.error());
    EXPECT_EQ(committed->revision, run.acknowledged + 1);
    run.acknowledged = committed->revision;
    const auto finished = file->FinishAudit(committed->audit_sequence, {{"f", "j", "a", "b"}});
    if (!finished) return failed(finished.error());
    // Moves the WAL into the file, as SQLite does every thousand pages.
    if (run.acknowledged % 2 == 0) {
      const auto moved = file->database().Execute("PRAGMA wal_checkpoint(TRUNCATE)");
      if (!moved) return failed(moved.error());
    }
  }
  return run;
}

class StoreFaults : public testing::TestWithParam<std::tuple<Fault, bool>> {};

std::uint64_t RevisionOn(const CrashDisk& disk) {
  Result<StoreFile> file = OpenOn(disk);
  EXPECT_TRUE(file.has_value()) << file.error().message;
  return file ? CheckedRevision(*file) : UINT64_MAX;
}

// A process that got an error dies, but the machine stays up.
TEST_P(StoreFaults, FailureIsAnErrorThatChangesNothing) {
  const auto [fault, for_good] = GetParam();
  int errors = 0;
  for (std::uint64_t at = 0;; ++at) {
    SCOPED_TRACE(at);
    CrashDisk disk;
    disk.FailAt(at, fault, for_good);
    const Progress run = Work(disk, 4);
    if (!disk.struck()) {
      EXPECT_EQ(run.acknowledged, 4U);
      break;
    }
    if (run.error) {
      ++errors;
      EXPECT_NE(run.error->message.find("store.db: "), std::string::npos) << run.error->message;
      EXPECT_NE(run.error->code, ErrorCode::kInternal) << run.error->message;
    }
    disk.Heal();
    const std::uint64_t found = RevisionOn(disk);
    if (for_good && found == run.acknowledged + 1) continue;  // nothing could be taken back
    EXPECT_EQ(found, run.acknowledged);
    if (HasFailure()) return;
  }
  EXPECT_GT(errors, 20);
}

// The disk recovers while the process lives, which continues from the acknowledged state.
TEST_P(StoreFaults, WorkContinuesWhenTheDiskRecovers) {
  const auto [fault, for_good] = GetParam();
  CrashDisk disk;
  ASSERT_FALSE(Work(disk, 2).error);
  Result<StoreFile> file = OpenOn(disk);
  ASSERT_TRUE(file.has_value() && file->Begin(kNow).has_value());
  std::uint64_t revision = 2;
  for (std::uint64_t at = 0;; ++at) {
    SCOPED_TRACE(at);
    disk.FailAt(at, fault, for_good);
    const Result<Committed> failed = file->Commit(ChangeTo(revision + 1), kNow);
    const bool struck = disk.struck();
    disk.Heal();
    revision += failed ? 1 : 0;
    EXPECT_EQ(file->ReadIntents(revision).value(), IntentsOf(revision));
    EXPECT_EQ(file->ReadIntents(revision + 1).error().code, ErrorCode::kNotFound);
    const Result<Committed> next = file->Commit(ChangeTo(revision + 1), kNow);
    ASSERT_TRUE(next.has_value()) << next.error().message;
    revision = next->revision;
    if (!struck) break;
  }
  file = Fail(ErrorCode::kInternal, "closed");
  EXPECT_EQ(RevisionOn(disk), revision);
}

// The power fails at that operation: any sector without an fsync may be lost.
TEST_P(StoreFaults, APowerFailureLosesNothingAcknowledged) {
  const auto [fault, for_good] = GetParam();
  if (!for_good) GTEST_SKIP() << "power that is gone does not come back";
  std::mt19937_64 random(20261121);
  for (std::uint64_t at = 0;; ++at) {
    SCOPED_TRACE(at);
    CrashDisk disk;
    disk.FailAt(at, fault, true);
    const Progress run = Work(disk, 4);
    if (!disk.struck()) break;
    disk.LosePower(random);
    disk.Heal();
    const std::uint64_t found = RevisionOn(disk);
    // The change in progress, which was not acknowledged, may be complete.
    EXPECT_TRUE(found == run.acknowledged || found == run.acknowledged + 1)
        << "acknowledged " << run.acknowledged << ", found " << found;
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Disk, StoreFaults,
                         testing::Combine(testing::Values(Fault::kIoError, Fault::kTornWrite,
                                                          Fault::kFull),
                                          testing::Bool()));

// The child commits as fast as it can and reports each acknowledged revision.
[[noreturn]] void CommitForEver(const std::string& path, int acknowledgements) {
  Result<StoreFile> file = OpenStore(path);
  if (!file) _exit(1);
  Result<StoredState> begun = file->Begin(kNow);
  if (!begun) _exit(1);
  for (std::uint64_t revision = begun->revision + 1;; ++revision) {
    const auto committed = file->Commit(ChangeTo(revision), kNow);
    if (!committed || committed->revision != revision) _exit(1);
    if (write(acknowledgements, &revision, sizeof(revision)) != sizeof(revision)) _exit(1);
  }
}

// Starts such a child, reads `count` acknowledgements and kills it at any point.
std::uint64_t KillAfter(const std::string& path, std::uint64_t count, std::uint64_t spins) {
  int ends[2] = {};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    CommitForEver(path, ends[1]);
  }
  close(ends[1]);
  std::uint64_t acknowledged = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(read(ends[0], &acknowledged, sizeof(acknowledged)),
              static_cast<ssize_t>(sizeof(acknowledged)));
  }
  std::mt19937_64 spin(spins);
  while (spins-- > 0 && spin() != 0) {
  }
  EXPECT_EQ(kill(child, SIGKILL), 0);
  // The revisions that it had acknowledged before it died.
  while (read(ends[0], &acknowledged, sizeof(acknowledged)) == sizeof(acknowledged)) {
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it failed by itself";
  return acknowledged;
}

TEST(StoreKilled, LosesNothingAcknowledgedAndStaysConsistent) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/store.db";
  std::mt19937_64 random(8);
  std::uint64_t last = 0;
  for (int kill = 0; kill < 200; ++kill) {
    SCOPED_TRACE(kill);
    last = std::max(last, KillAfter(path, random() % 6, random() % 500'000));
    if (kill % 10 != 0) continue;  // most are found by the next child
    Result<StoreFile> file = OpenStore(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    const std::uint64_t found = CheckedRevision(*file);
    EXPECT_TRUE(found == last || found == last + 1) << found << " after " << last;
    last = found;
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace espalier::controller
