#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective/transport/base/fork_guard.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// A counter in shared memory on which other ranks wait. Writers never block; waiters spin briefly,
// yield, then sleep. Place it alone on a cache line, or together with the data that it announces.
struct Counter {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
  // The core of the last writer plus one, as a hint; 0: unknown.
  std::atomic<std::uint32_t> core{0};

  void Set(std::uint32_t to);
  void Add();  // any thread or process

 private:
  void Wake();
};

struct alignas(64) Signal : Counter {};

// Waits for the time of one cache-line transfer. Call it between writing a line that peers poll and
// polling the peers' lines, when all ranks do so at about the same time. Polling a line too early
// steals it from the peer that is about to write it, and costs two more transfers.
void WaitOneCacheLineTransfer();

// Sleeps until the signal's value differs from `seen` (returns true) or the deadline passes. Any
// process may write to the signal.
bool SleepOn(Counter& signal, std::uint32_t seen, Deadline deadline);

// A group of ranks on one host with shared memory: a memory file that rank 0 creates and that the
// other ranks open through the rendezvous store. The memory is zeroed, is allocated page by page on
// first use, and disappears when the last rank has left or died.
//
// Death of ranks. Problem: a rank can die at any time without a word, and others wait for it in
// shared memory. Idea: each rank holds a lock on its own byte of the file, which the kernel
// releases when the process ends; sleeping waiters test the locks every 20 ms. The destructor marks
// a rank as having left in order. Cost: one system call per peer for each test.
//
// Remote access. Problem: some protocols let peers access a rank's private buffers, and a failed
// call may return only when no peer does so any more. Idea: a rank raises its access flag and then
// looks for an abort; a rank that aborts sets the abort and then looks at the access flags
// (Dekker's scheme). Invariant: these four operations are sequentially consistent, so at least one
// of two such ranks sees the other: either the access does not begin, or the aborting rank waits
// for its end. Cost: two stores and a load for each call. Thread safety: one thread at a time.
class SharedGroup {
 public:
  // Waits until all ranks have joined. `name` tells the groups of one store apart. `names`: the
  // numbers by which errors name the ranks; empty: their own.
  // Errors: kUnavailable if ranks are missing at the deadline (it names them) or memory cannot be
  // allocated; kFailedPrecondition if a rank has other sizes or another version; kAlreadyExists if
  // the rank has joined already.
  static Result<std::unique_ptr<SharedGroup>> Join(RendezvousStore& store, const std::string& name,
                                                   int rank, int size, std::size_t bytes,
                                                   Deadline deadline, std::vector<int> names = {});
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;
  ~SharedGroup();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Whether there is at least one core for each rank, among the cores that all ranks may use.
  bool has_cores() const { return ranks_per_core_ == 1; }
  // The number of ranks that share a core, rounded up.
  int ranks_per_core() const { return ranks_per_core_; }
  // The shared memory, aligned to pages.
  std::byte* memory() const;

  // Spins for some microseconds until the value differs from `seen`, or for a shorter time if
  // spinning cannot help; returns whether it differs. Try this before Await, which is for longer
  // waits.
  bool Spin(const Counter& counter, std::uint32_t seen);
  // Waits until the value differs from `seen`.
  // Errors: kUnavailable past the deadline; those of CheckPeers.
  Result<void> Await(Counter& counter, std::uint32_t seen, Deadline deadline);
  // Errors: kUnavailable if a rank has died; the cause with which a rank has aborted.
  Result<void> CheckPeers();
  // Whether a rank has died or has left in order.
  bool HasGone(int peer) const;
  // Ends the group for all ranks. If several ranks abort, all get the first cause.
  void Abort(const Error& cause);

  // Begins access to the private memory of other ranks' programs; EndRemoteAccess ends it. Errors:
  // the cause with which a rank has aborted; its memory must then not be accessed.
  Result<void> BeginRemoteAccess();
  void EndRemoteAccess();
  // After Abort: waits until no living rank accesses other ranks' memory any more. Returns a rank
  // that still does at the deadline, else none. This rank must have ended its own access.
  std::optional<int> AwaitRemoteAccessEnd(Deadline deadline) const;

 private:
  struct Header;
  SharedGroup(int rank, int size, std::vector<int> names)
      : rank_(rank), size_(size), names_(std::move(names)) {}
  int NameOf(int rank) const {
    return names_.empty() ? rank : names_[static_cast<std::size_t>(rank)];
  }

  Result<void> Create(RendezvousStore& store, const std::string& key, std::size_t bytes,
                      Deadline deadline);
  Result<void> Open(RendezvousStore& store, const std::string& key, std::size_t bytes,
                    Deadline deadline);
  Result<void> Map(std::size_t bytes);
  Result<void> TakeLock();
  Result<void> AwaitAll(RendezvousStore& store, const std::string& failure_key, Deadline deadline);
  // Whether the last writer ran on this rank's core although there is a core for each rank.
  bool SharesWritersCore(const Counter& counter) const;
  Result<void> CheckAbort();
  Header& header() const;
  bool HasDied(int peer) const;
  std::string DescribeLeavers() const;

  int rank_;
  int size_;
  std::vector<int> names_;
  UniqueFd file_;
  // The file, opened again for the lock that proves that this rank lives. A lock lasts as long as
  // its open file is mapped, and forked children inherit the mapping of file_.
  UniqueFd lock_;
  std::optional<ForkGuard> guard_;  // guards lock_
  std::byte* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  bool is_present_ = false;  // this rank has joined and was not refused
  int ranks_per_core_ = 1;
  std::uint32_t crowded_waits_ = 0;  // waits for a writer on this rank's core
};

// Creates a memory file of `bytes` bytes that is sealed against shrinking, so whoever maps it may
// access all of it, whatever other processes do. Errors: kUnavailable.
Result<UniqueFd> MakeMemoryFile(const char* name, std::size_t bytes);
// Opens a memory file of another process, or of this one, for reading and writing.
// Errors: kUnavailable; kFailedPrecondition for a file that is shorter or not sealed against
// shrinking.
Result<UniqueFd> OpenMemoryFile(std::int64_t process, int file, std::size_t bytes);

}  // namespace espalier::transport
