#include "collective/transport/stores/folder_meeting.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "collective/transport/base/fork_guard.h"
#include "collective/transport/rendezvous/published_endpoint.h"
#include "collective/transport/rendezvous/rendezvous.h"
#include "collective/transport/stores/file_store.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLongestPause{10};
constexpr std::size_t kRunDigits = 16;

std::string DrawName() { return fmt::format("{:016x}", DrawGroup()); }

// What a rank says: of itself its random number, of a run that it agrees to the run's name.
struct Member {
  std::string number;
  int size = 0;

  std::string ToText() const { return fmt::format("{} {}", number, size); }
};

// What rank 0 proposes.
struct Run {
  std::string name;  // random
  int size = 0;
  std::vector<std::string> numbers;  // of the ranks

  std::string ToText() const {
    return fmt::format("{} {} {}", name, size, fmt::join(numbers, " "));
  }
};

std::optional<Member> ParseMember(const std::string& text) {
  std::istringstream stream(text);
  Member member;
  if (stream >> member.number >> member.size) return member;
  return std::nullopt;
}

std::optional<Run> ParseRun(const std::string& text) {
  std::istringstream stream(text);
  Run run;
  if (!(stream >> run.name >> run.size)) return std::nullopt;
  for (std::string number; stream >> number;) run.numbers.push_back(number);
  return run;
}

// Puts the run's name before every key.
class RunStore : public RendezvousStore {
 public:
  RunStore(FileStore& store, std::string run) : store_(store), run_(std::move(run)) {}
  Result<void> Set(const std::string& key, const std::string& value, Deadline deadline) override {
    return store_.Set(run_ + '/' + key, value, deadline);
  }
  Result<std::string> Get(const std::string& key, Deadline deadline) override {
    return store_.Get(run_ + '/' + key, deadline);
  }
  Result<std::string> SetOnce(const std::string& key, const std::string& value,
                              Deadline deadline) override {
    return store_.SetOnce(run_ + '/' + key, value, deadline);
  }

 private:
  FileStore& store_;
  const std::string run_;
};

std::string FileOfKey(std::string key) {
  std::replace(key.begin(), key.end(), '/', '.');
  return key;
}

class Meeting : public FolderMeeting {
 public:
  Meeting(const fs::path& folder, const std::string& name, int rank, int size, Deadline deadline)
      : folder_(folder), name_(name), rank_(rank), deadline_(deadline), files_(folder) {
    self_ = {.number = DrawName(), .size = size};
  }
  ~Meeting() override {
    // Nobody else holds the run's lock: this rank is the last one.
    if (lock_ && ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) RemoveFilesOf(run_);
  }
  const std::string& run_name() const override { return run_name_; }
  RendezvousStore& store() override { return *store_; }

  Result<void> Meet() {
    auto met = Say("meeting", self_.ToText());
    if (met) met = rank_ == 0 ? Lead() : Follow();
    if (!met) return met;
    run_name_ = name_ + '/' + run_;
    store_ = std::make_unique<RunStore>(files_, run_name_);
    return {};
  }

 private:
  std::string KeyOf(const char* what, int rank) const {
    return fmt::format("{}/{}.{}", name_, what, rank);
  }
  Result<void> Say(const char* what, const std::string& text) {
    return files_.Set(KeyOf(what, rank_), text, deadline_);
  }
  std::string ReadNow(const std::string& key) {
    return files_.Get(key, steady_clock::time_point()).value_or(std::string());
  }
  fs::path LockOf(const std::string& run) const {
    return folder_ / FileOfKey(fmt::format("{}/{}.lock", name_, run));
  }

  // A rank's number is overwritten only by another process that joins as the same rank.
  Result<void> CheckStillThisRank() {
    if (ReadNow(KeyOf("meeting", rank_)) == self_.ToText()) return {};
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("another process joins the group \"{}\" in {} as rank {} at the same "
                            "time (give each run a name or a folder of its own)",
                            name_, folder_.string(), rank_));
  }
  Result<void> Pause(milliseconds& pause) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
    return CheckStillThisRank();
  }
  tl::unexpected<Error> FailOfSizes(int rank, int size) const {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("rank {} has a group of {} ranks, but rank {} has one of {}", rank,
                            size, rank_, self_.size));
  }

  // On a file system without locks, files of old runs accumulate, which does no other harm.
  void TakeLock(const std::string& run, int flags) {
    guard_.reset();
    lock_ = UniqueFd(::open(LockOf(run).c_str(), O_RDWR | O_CLOEXEC | flags, 0644));
    if (lock_ && ::flock(lock_.get(), LOCK_SH | LOCK_NB) != 0) lock_ = UniqueFd();
    if (lock_) guard_.emplace(lock_.get());
    run_ = run;
  }

  Result<void> Lead() {
    RemoveOldRuns();
    Run run;
    std::set<int> missing;
    milliseconds pause{1};
    while (true) {
      auto changed = Propose(run, missing);
      if (!changed) return Propagate(changed);
      if (*changed) pause = milliseconds(1);
      if (!run.name.empty() && missing.empty())
        return files_.Set(name_ + "/meeting.go", run_, deadline_);
      if (steady_clock::now() >= deadline_) {
        return Fail(ErrorCode::kUnavailable,
                    fmt::format("ranks that did not join in time: {} (they look for the group "
                                "\"{}\" in {})",
                                fmt::join(missing, " "), name_, folder_.string()));
      }
      auto waited = Pause(pause);
      if (!waited) return waited;
    }
  }

  // Looks at all ranks that have not agreed, and proposes another run if one of them is new.
  // Returns whether it has.
  Result<bool> Propose(Run& run, std::set<int>& missing) {
    const bool is_first = run.name.empty();
    std::vector<std::string> numbers = run.numbers;
    numbers.resize(static_cast<std::size_t>(self_.size));
    numbers[0] = self_.number;
    std::set<int> unheard;
    std::set<int> undecided;
    for (int rank = 1; rank < self_.size; ++rank) {
      if (!is_first && !missing.contains(rank)) continue;
      const auto said = ParseMember(ReadNow(KeyOf("meeting", rank)));
      if (said) numbers[static_cast<std::size_t>(rank)] = said->number;
      if (!said) unheard.insert(rank);
      const auto agreed = ParseMember(ReadNow(KeyOf("agrees", rank)));
      const bool agrees = !is_first && agreed && agreed->number == run.name;
      if (agrees && agreed->size != self_.size) return FailOfSizes(rank, agreed->size);
      if (!agrees) undecided.insert(rank);
    }
    if (!unheard.empty() || numbers == run.numbers) {
      missing = unheard.empty() ? std::move(undecided) : std::move(unheard);
      return false;
    }
    if (!is_first) RemoveFilesOf(run.name);
    run = {.name = DrawName(), .size = self_.size, .numbers = std::move(numbers)};
    TakeLock(run.name, O_CREAT);
    auto told = files_.Set(name_ + "/meeting.all", run.ToText(), deadline_);
    if (!told) return Propagate(told);
    missing.clear();
    for (int rank = 1; rank < self_.size; ++rank) missing.insert(rank);
    return true;
  }

  Result<void> Follow() {
    milliseconds pause{1};
    while (true) {
      const auto run = ParseRun(ReadNow(name_ + "/meeting.all"));
      const auto own = static_cast<std::size_t>(rank_);
      const bool is_ours = run && own < run->numbers.size() && run->numbers[own] == self_.number;
      if (is_ours && run->name != run_) {
        TakeLock(run->name, 0);
        auto agreed = Say("agrees", fmt::format("{} {}", run->name, self_.size));
        if (!agreed) return agreed;
        pause = milliseconds(1);
      }
      if (is_ours && run->size != self_.size) return FailOfSizes(0, run->size);
      if (!run_.empty() && ReadNow(name_ + "/meeting.go") == run_) return {};
      if (steady_clock::now() >= deadline_) {
        return Fail(ErrorCode::kUnavailable,
                    fmt::format("{} did not join in time (this one looks for the group \"{}\" in "
                                "{})",
                                run_.empty() ? "rank 0" : "another rank", name_, folder_.string()));
      }
      auto waited = Pause(pause);
      if (!waited) return waited;
    }
  }

  void RemoveFilesOf(const std::string& run) {
    const std::string begin = FileOfKey(fmt::format("{}/{}.", name_, run));
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(folder_, code)) {
      if (entry.path().filename().string().starts_with(begin)) fs::remove(entry.path(), code);
    }
  }

  // Removes the files of runs whose ranks have all ended.
  void RemoveOldRuns() {
    const std::string begin = FileOfKey(name_ + '/');
    std::vector<std::string> ended;
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(folder_, code)) {
      const std::string file = entry.path().filename().string();
      if (!file.starts_with(begin) || !file.ends_with(".lock") ||
          file.size() != begin.size() + kRunDigits + 5) {
        continue;
      }
      const UniqueFd lock(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
      if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
        ended.push_back(file.substr(begin.size(), kRunDigits));
      }
    }
    for (const std::string& run : ended) RemoveFilesOf(run);
  }

  const fs::path folder_;
  const std::string name_;
  const int rank_;
  const Deadline deadline_;
  FileStore files_;
  Member self_;
  std::string run_;
  std::string run_name_;
  UniqueFd lock_;
  std::optional<ForkGuard> guard_;
  std::unique_ptr<RunStore> store_;
};

}  // namespace

Result<void> CheckFolder(const std::filesystem::path& folder) {
  std::error_code code;
  if (fs::is_directory(folder, code)) return {};
  return Fail(ErrorCode::kNotFound,
              fmt::format("{}: there is no such folder for the ranks to meet in (create it on a "
                          "file system that all ranks see, or write tcp://ADDRESS:PORT)",
                          folder.string()));
}

Result<std::unique_ptr<FolderMeeting>> FolderMeeting::Join(const fs::path& folder,
                                                           const std::string& name, int rank,
                                                           int size, Deadline deadline) {
  auto checked = Rendezvous::CheckRank(rank, size);
  if (checked) checked = CheckFolder(folder);
  if (!checked) return Propagate(checked);
  auto meeting = std::make_unique<Meeting>(folder, name, rank, size, deadline);
  auto met = meeting->Meet();
  if (!met) return Propagate(met);
  return meeting;
}

}  // namespace espalier::transport
