#include "collective/transport/shm/shared_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <thread>

#include "common/base/check.h"

namespace espalier::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x45535033;
constexpr int kMaxRanks = 1024;
// About 5 us of spinning, which pays only while every rank has a core of its own.
constexpr int kSpins = 200;
// One pause takes 20 to 40 ns.
constexpr int kPausesPerTransfer = 2;
// The first spins have no pause between them, because a pause is as long as a cache-line transfer.
constexpr int kUnpausedSpins = 40;
// Yielding costs nothing on an idle core; on a busy one it may take many times this long.
constexpr microseconds kYieldTime{50};
// A writer on this rank's core cannot run while this rank spins, and yielding keeps both on that
// core. A sleeper that is woken is placed on an idle core, so one of this many waits sleeps at
// once.
constexpr std::uint32_t kSleepEvery = 16;
// How long a sleeper sleeps before it checks that its peers live.
constexpr milliseconds kNap{20};
// How often an aborting rank checks the remote access of other ranks.
constexpr milliseconds kLookAgain{1};
// How often a rank that waits for others looks whether one of them has told why it cannot join.
constexpr milliseconds kFailureLook{500};
constexpr std::size_t kHeaderBytes = 64 << 10;
constexpr off_t kLocksBegin = off_t{1} << 40;

std::string SystemReason() { return std::strerror(errno); }

void PauseCore() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void Sleep(std::atomic<std::uint32_t>& word, std::uint32_t seen, nanoseconds longest) {
  const auto count = std::max<std::int64_t>(longest.count(), 1);
  const timespec limit = {.tv_sec = count / 1'000'000'000, .tv_nsec = count % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

// The current core plus one; 0 if it is unknown.
std::uint32_t CurrentCore() { return static_cast<std::uint32_t>(::sched_getcpu() + 1); }

// Words of a bit set of cores.
constexpr std::size_t kCoreWords = CPU_SETSIZE / 64;

// A name of this host's kernel since its boot; "-" if there is none.
std::string HostName() {
  std::ifstream stream("/proc/sys/kernel/random/boot_id");
  std::string name;
  return stream >> name ? name : "-";
}

struct flock LockOf(int rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = kLocksBegin + rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

void Counter::Wake() {
  if (sleepers.load() != 0) ::syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Counter::Set(std::uint32_t to) {
  core.store(CurrentCore(), std::memory_order_relaxed);
  value.store(to);
  Wake();
}

void Counter::Add() {
  core.store(CurrentCore(), std::memory_order_relaxed);
  value.fetch_add(1);
  Wake();
}

void WaitOneCacheLineTransfer() {
  for (int i = 0; i < kPausesPerTransfer; ++i) PauseCore();
}

bool SleepOn(Counter& signal, std::uint32_t seen, Deadline deadline) {
  const auto changed = [&] { return signal.value.load(std::memory_order_acquire) != seen; };
  while (!changed()) {
    const auto left = deadline - steady_clock::now();
    if (left <= nanoseconds(0)) return false;
    signal.sleepers.fetch_add(1);
    if (!changed()) Sleep(signal.value, seen, left);
    signal.sleepers.fetch_sub(1);
  }
  return true;
}

struct SharedGroup::Header {
  Signal joined;  // number of ranks that have joined
  std::uint32_t magic = 0;
  std::int32_t ranks = 0;
  std::uint64_t bytes = 0;
  enum : std::uint32_t { kNone, kBeingWritten, kAborted };
  std::atomic<std::uint32_t> abort{kNone};
  std::int32_t abort_code = 0;
  char abort_text[512] = {};
  enum : std::uint8_t { kAbsent, kPresent, kLeft };
  std::atomic<std::uint8_t> presence[kMaxRanks] = {};
  std::atomic<std::uint8_t> accessing[kMaxRanks] = {};  // 1: the rank accesses other ranks' memory
  std::atomic<std::uint64_t> cores[kCoreWords] = {};    // the cores that any rank may use

  void AddOwnCores() {
    cpu_set_t own;
    CPU_ZERO(&own);
    if (::sched_getaffinity(0, sizeof(own), &own) != 0) CPU_SET(0, &own);
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &own)) cores[core / 64] |= std::uint64_t{1} << core % 64;
    }
  }
  int CountCores() const {
    return std::accumulate(std::begin(cores), std::end(cores), 0, [](int count, const auto& word) {
      return count + std::popcount(word.load());
    });
  }
};

Result<UniqueFd> MakeMemoryFile(const char* name, std::size_t bytes) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot create {} bytes of shared memory: {}", bytes, SystemReason()));
  }
  return file;
}

Result<UniqueFd> OpenMemoryFile(std::int64_t process, int file, std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, file);
  // O_NONBLOCK, because opening a pipe would wait for its other end.
  UniqueFd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!opened) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot open the shared memory {}: {} (ranks that share memory must "
                            "run on one host, under one user, and see each other's processes)",
                            path, SystemReason()));
  }
  const int seals = ::fcntl(opened.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{} is not sealed against shrinking, as shared memory of ranks must be "
                            "(another version?)",
                            path));
  }
  const off_t length = ::lseek(opened.get(), 0, SEEK_END);
  if (length < 0 || static_cast<std::size_t>(length) < bytes) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("the shared memory {} has {} bytes instead of {} (other options, or "
                            "another version?)",
                            path, length, bytes));
  }
  return opened;
}

Result<std::unique_ptr<SharedGroup>> SharedGroup::Join(RendezvousStore& store,
                                                       const std::string& name, int rank, int size,
                                                       std::size_t bytes, Deadline deadline,
                                                       std::vector<int> names) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  if (size < 1 || size > kMaxRanks || rank < 0 || rank >= size) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("rank {} of {}: a group has 1 to {} ranks, counted from 0", rank, size,
                            kMaxRanks));
  }
  std::unique_ptr<SharedGroup> group(new SharedGroup(rank, size, std::move(names)));
  const std::string key = name + "/memory";
  auto ready = rank == 0 ? group->Create(store, key, bytes, deadline)
                         : group->Open(store, key, bytes, deadline);
  if (ready) ready = group->AwaitAll(store, JoinFailureKey(name), deadline);
  if (!ready) return Propagate(ready);
  const int cores = std::max(group->header().CountCores(), 1);
  group->ranks_per_core_ = (size + cores - 1) / cores;
  return group;
}

SharedGroup::Header& SharedGroup::header() const { return *reinterpret_cast<Header*>(mapping_); }

std::byte* SharedGroup::memory() const { return mapping_ + kHeaderBytes; }

SharedGroup::~SharedGroup() {
  if (mapping_ == nullptr) return;
  if (is_present_) header().presence[rank_] = Header::kLeft;
  ::munmap(mapping_, mapped_bytes_);
}

Result<void> SharedGroup::Map(std::size_t bytes) {
  mapped_bytes_ = kHeaderBytes + bytes;
  void* address =
      ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (address == MAP_FAILED) {
    return Fail(ErrorCode::kUnavailable, fmt::format("cannot map {} bytes of shared memory: {}",
                                                     mapped_bytes_, SystemReason()));
  }
  mapping_ = static_cast<std::byte*>(address);
  return {};
}

Result<void> SharedGroup::TakeLock() {
  auto again = OpenMemoryFile(::getpid(), file_.get(), 0);
  if (!again) return Propagate(again);
  lock_ = std::move(*again);
  guard_.emplace(lock_.get());
  struct flock lock = LockOf(rank_);
  if (::fcntl(lock_.get(), F_OFD_SETLK, &lock) == 0) return {};
  return Fail(
      ErrorCode::kAlreadyExists,
      fmt::format("rank {} has already joined from another process or thread", NameOf(rank_)));
}

Result<void> SharedGroup::Create(RendezvousStore& store, const std::string& key, std::size_t bytes,
                                 Deadline deadline) {
  auto made = MakeMemoryFile("espalier-collective", kHeaderBytes + bytes);
  if (!made) return Propagate(made);
  file_ = std::move(*made);
  auto done = Map(bytes);
  if (!done) return done;
  new (mapping_) Header;
  header().magic = kMagic;
  header().ranks = size_;
  header().bytes = bytes;
  done = TakeLock();
  if (!done) return done;
  return store.Set(key, fmt::format("{} {} {}", ::getpid(), file_.get(), HostName()), deadline);
}

Result<void> SharedGroup::Open(RendezvousStore& store, const std::string& key, std::size_t bytes,
                               Deadline deadline) {
  auto place = store.Get(key, deadline);
  if (!place) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("rank {} did not join in time: {}", NameOf(0), place.error().message));
  }
  long process = 0;
  int file = 0;
  char host[64] = "";
  if (std::sscanf(place->c_str(), "%ld %d %63s", &process, &file, host) < 2) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("cannot read \"{}\" as the place of rank 0's memory", *place));
  }
  if (*host != '\0' && HostName() != host) {
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("rank {} and rank {} run on different hosts, but shared memory connects "
                    "ranks of one host only (choose TCP or verbs as the medium, and give "
                    "each rank the address at which others reach it)",
                    NameOf(0), NameOf(rank_)));
  }
  auto opened = OpenMemoryFile(process, file, kHeaderBytes + bytes);
  if (!opened) return Propagate(opened);
  file_ = std::move(*opened);
  auto done = Map(bytes);
  if (!done) return done;
  if (header().magic != kMagic || header().ranks != size_) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("rank 0 has a group of {} ranks, but rank {} has one of {}",
                            header().ranks, rank_, size_));
  }
  if (header().bytes != bytes) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("rank 0 shares {} bytes, but rank {} expects {} (other options, or "
                            "another version?)",
                            header().bytes, rank_, bytes));
  }
  return TakeLock();
}

Result<void> SharedGroup::AwaitAll(RendezvousStore& store, const std::string& failure_key,
                                   Deadline deadline) {
  header().AddOwnCores();
  header().presence[rank_] = Header::kPresent;
  is_present_ = true;
  header().joined.Add();
  while (true) {
    const std::uint32_t joined = header().joined.value;
    if (joined >= static_cast<std::uint32_t>(size_)) return {};
    const auto look = std::min(deadline, steady_clock::now() + kFailureLook);
    auto changed = Await(header().joined, joined, look);
    if (changed) continue;
    if (steady_clock::now() < look) return changed;
    const auto failed = store.Get(failure_key, steady_clock::now() + kLookAgain);
    if (failed) return Fail(ErrorCode::kUnavailable, *failed);
    if (steady_clock::now() < deadline) continue;
    std::string missing;
    for (int peer = 0; peer < size_; ++peer) {
      if (header().presence[peer] == Header::kAbsent) missing += fmt::format(" {}", NameOf(peer));
    }
    return Fail(ErrorCode::kUnavailable, "ranks that did not join in time:" + missing);
  }
}

bool SharedGroup::SharesWritersCore(const Counter& counter) const {
  return has_cores() && counter.core.load(std::memory_order_relaxed) == CurrentCore();
}

bool SharedGroup::Spin(const Counter& counter, std::uint32_t seen) {
  const bool helps = !SharesWritersCore(counter);
  const int spins = has_cores() ? kSpins : 1;
  for (int i = 0; i < spins; ++i) {
    if (counter.value.load(std::memory_order_acquire) != seen) return true;
    if (!helps) return false;
    if (i >= kUnpausedSpins) PauseCore();
  }
  return false;
}

Result<void> SharedGroup::Await(Counter& counter, std::uint32_t seen, Deadline deadline) {
  const auto changed = [&] { return counter.value.load(std::memory_order_acquire) != seen; };
  const bool sleeps_at_once = SharesWritersCore(counter) && ++crowded_waits_ % kSleepEvery == 0;
  const auto yield_until = steady_clock::now() + (sleeps_at_once ? microseconds(0) : kYieldTime);
  do {
    if (changed()) return {};
    ::sched_yield();
  } while (steady_clock::now() < yield_until);
  while (true) {
    counter.sleepers.fetch_add(1);
    if (!changed()) {
      Sleep(counter.value, seen, std::min<nanoseconds>(kNap, deadline - steady_clock::now()));
    }
    counter.sleepers.fetch_sub(1);
    if (changed()) return {};
    auto well = CheckPeers();
    if (!well) return well;
    if (steady_clock::now() >= deadline) {
      return Fail(ErrorCode::kUnavailable, "timed out" + DescribeLeavers());
    }
  }
}

bool SharedGroup::HasDied(int peer) const {
  if (header().presence[peer] != Header::kPresent) return false;  // not joined, or left in order
  struct flock lock = LockOf(peer);
  return ::fcntl(lock_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

bool SharedGroup::HasGone(int peer) const {
  return header().presence[peer] == Header::kLeft || HasDied(peer);
}

std::string SharedGroup::DescribeLeavers() const {
  std::string leavers;
  for (int peer = 0; peer < size_; ++peer) {
    if (header().presence[peer] == Header::kLeft)
      leavers += fmt::format("; rank {} has left", NameOf(peer));
  }
  return leavers;
}

Result<void> SharedGroup::CheckAbort() {
  if (header().abort.load(std::memory_order_acquire) != Header::kAborted) return {};
  // Check the values, as a faulty rank may have written anything there.
  const int code = header().abort_code;
  const bool is_known = code >= 0 && code <= static_cast<int>(ErrorCode::kInternal);
  const char* const text = header().abort_text;
  return Fail(is_known ? static_cast<ErrorCode>(code) : ErrorCode::kUnavailable,
              std::string(text, ::strnlen(text, sizeof(Header::abort_text))));
}

Result<void> SharedGroup::CheckPeers() {
  auto abort = CheckAbort();
  if (!abort) return abort;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && HasDied(peer)) {
      return Fail(ErrorCode::kUnavailable, fmt::format("rank {} has died", NameOf(peer)));
    }
  }
  return {};
}

void SharedGroup::Abort(const Error& cause) {
  std::uint32_t none = Header::kNone;
  if (!header().abort.compare_exchange_strong(none, Header::kBeingWritten)) return;
  header().abort_code = static_cast<std::int32_t>(cause.code);
  const std::size_t length = std::min(cause.message.size(), sizeof(Header::abort_text) - 1);
  std::memcpy(header().abort_text, cause.message.data(), length);
  header().abort.store(Header::kAborted, std::memory_order_release);
}

// Either this rank sees the abort, or the aborting rank sees this rank's flag, as all these loads
// and stores have one total order.
Result<void> SharedGroup::BeginRemoteAccess() {
  header().accessing[rank_] = 1;
  if (header().abort == Header::kNone) return {};
  EndRemoteAccess();
  auto cause = CheckAbort();
  return cause ? Fail(ErrorCode::kUnavailable, "a rank has given up") : cause;
}

void SharedGroup::EndRemoteAccess() {
  header().accessing[rank_].store(0, std::memory_order_release);
}

std::optional<int> SharedGroup::AwaitRemoteAccessEnd(Deadline deadline) const {
  for (int peer = 0; peer < size_; ++peer) {
    while (header().accessing[peer] != 0 && !HasDied(peer)) {
      if (steady_clock::now() >= deadline) return peer;
      std::this_thread::sleep_for(kLookAgain);
    }
  }
  return std::nullopt;
}

}  // namespace espalier::transport
