#include "controller/store/sqlite_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "common/os/worker_thread.h"
#include "controller/store/store_tools.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kMaxWaiting = 256;
// The time between two rounds of pruning, and the pause between two steps of a round.
constexpr std::chrono::minutes kPruneInterval{1};
constexpr std::chrono::milliseconds kPrunePause{100};

class SqliteStore : public Store {
 public:
  SqliteStore(UniqueFd lock, StoreFile file, EventLoop& loop, WallClock clock, StoreLimits limits)
      : lock_(std::move(lock)),
        file_(std::move(file)),
        loop_(loop),
        clock_(std::move(clock)),
        limits_(limits) {}
  ~SqliteStore() override {
    if (check_.joinable()) check_.join();
  }

  // Checks the file for damage while the store is in use.
  void CheckAside(const std::string& path) {
    check_ = std::thread([path] {
      Result<Database> database = Database::Open(path, {.read_only = true});
      const Result<void> sound = database ? database->CheckStructure() : Propagate(database);
      if (!sound) Log(LogLevel::kError, "event=store_damaged error=\"{}\"", sound.error().message);
    });
  }

  // Nothing runs on the strand yet.
  Result<StoredState> Begin() override { return file_.Begin(clock_()); }

  void Commit(StoreChange change, Done<Committed> done) override {
    Ask<Committed>([change = std::move(change)](StoreFile& file,
                                                WallTime now) { return file.Commit(change, now); },
                   std::move(done));
  }

  void FinishAudit(std::uint64_t sequence, std::vector<AuditMove> moves, Done<void> done) override {
    Ask<void>([sequence, moves = std::move(moves)](
                  StoreFile& file, WallTime) { return file.FinishAudit(sequence, moves); },
              std::move(done));
  }

  void AppendEvents(std::vector<StoredEvent> events) override {
    Ask<void>([events = std::move(events)](StoreFile& file,
                                           WallTime) { return file.AppendEvents(events); },
              [](const Result<void>& appended) {
                if (appended) return;
                Log(LogLevel::kWarning, "event=events_not_stored error=\"{}\"",
                    appended.error().message);
              });
  }

  void KeepLedger(std::vector<StoredBursts> parts, WallTime oldest) override {
    Ask<void>([parts = std::move(parts), oldest](
                  StoreFile& file, WallTime) { return file.KeepLedger(parts, oldest); },
              [](const Result<void>& kept) {
                if (kept) return;
                Log(LogLevel::kWarning, "event=ledger_not_stored error=\"{}\"",
                    kept.error().message);
              });
  }

  void ReadAudit(std::uint64_t since, std::size_t most,
                 Done<std::vector<AuditEntry>> done) override {
    Ask<std::vector<AuditEntry>>(
        [since, most](StoreFile& file, WallTime) { return file.ReadAudit(since, most); },
        std::move(done));
  }

  void ReadIntents(std::uint64_t revision, Done<Intents> done) override {
    Ask<Intents>([revision](StoreFile& file, WallTime) { return file.ReadIntents(revision); },
                 std::move(done));
  }

 private:
  // Runs `work` on the strand, and `done` with its result on the loop.
  template <typename T, typename Work>
  void Ask(Work work, Done<T> done) {
    const auto answer = std::make_shared<Done<T>>(std::move(done));
    const bool accepted = strand_.Post(
        [this, work = std::move(work), answer] {
          loop_.Post([result = work(file_, clock_()), answer] { (*answer)(result); });
          PruneSometimes();
        },
        kMaxWaiting);
    if (accepted) return;
    loop_.Post([answer] {
      (*answer)(Fail(ErrorCode::kResourceExhausted,
                     fmt::format("the store has {} pending changes (its disk is slow: try "
                                 "again later)",
                                 kMaxWaiting)));
    });
  }

  // Runs on the strand.
  void PruneSometimes() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_prune_) return;
    const Result<bool> has_more = file_.PruneSome(clock_(), limits_);
    if (!has_more) {
      Log(LogLevel::kWarning, "event=store_not_pruned error=\"{}\"", has_more.error().message);
    }
    next_prune_ = now + (has_more && *has_more ? kPrunePause : kPruneInterval);
  }

  UniqueFd lock_;
  StoreFile file_;
  EventLoop& loop_;
  WallClock clock_;
  const StoreLimits limits_;
  std::chrono::steady_clock::time_point next_prune_{};
  std::thread check_;
  WorkerThread strand_{
      WorkerThread::AtEnd::kDone};  // last, so that it ends before the members that it uses
};

}  // namespace

Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path, EventLoop& loop,
                                               const WallClock& clock, StoreLimits limits) {
  Result<UniqueFd> lock = LockStore(path);
  if (!lock) return Propagate(lock);
  const bool is_large = IsTooLargeToCheckAtStart(path);
  Result<StoreFile> file = OpenStore(path);
  if (!file) return Propagate(file);
  auto store =
      std::make_unique<SqliteStore>(std::move(*lock), std::move(*file), loop, clock, limits);
  if (is_large) store->CheckAside(path);
  return store;
}

Result<void> CheckStoreFolder(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code)) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}: the folder of the state file does not exist (unless the service "
                            "manager creates it, create it or correct state_file)",
                            folder));
  }
  if (::access(folder.c_str(), W_OK) == 0) return {};
  return Fail(
      ErrorCode::kPermissionDenied,
      fmt::format("{}: this user cannot write into the folder of the state file (run as the "
                  "controller's user, or change the folder's owner)",
                  folder));
}

}  // namespace espalier::controller
