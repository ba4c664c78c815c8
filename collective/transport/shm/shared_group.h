#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collective/transport/base/fork_guard.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// A counter in shared memory that others wait for. Writers never block; waiters spin a little,
// give way, then sleep. It is best alone on a cache line, or with what is written before it.
struct Counter {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};
  // Where the last writer ran, plus one; a hint.
  std::atomic<std::uint32_t> core{0};

  void Set(std::uint32_t to);
  void Add();  // any thread or process

 private:
  void Wake();
};

struct alignas(64) Signal : Counter {};

// Passes the time that a line of memory takes from one core to another. Between writing a line that
// others look at and looking at theirs, when all do so at about the same time: who looks too early
// takes the line away from who is about to write it, and waits for two more ways.
void WaitOneCacheLineTransfer();

// Sleeps until the signal's value is not `seen` any more (true), or the deadline. Of a signal that
// may be written to by anybody.
bool SleepOn(Counter& signal, std::uint32_t seen, Deadline deadline);

// The ranks of one host, over memory that all of them have mapped: a memory file that rank 0 makes
// and the others open through the store. Zero at first, and taken from the system page by page as
// it is touched. The memory is gone when the last rank has left or died.
//
// A rank that dies, however it dies, is found by the others within a fraction of a second of
// waiting: each holds a lock on a byte of the file of its own. Destruction leaves in good order.
// Thread safety: one thread at a time.
class SharedGroup {
 public:
  // Waits until all ranks have come. `name` tells groups of one store apart.
  // Errors: kUnavailable for ranks that do not come before the deadline (named), memory that
  // cannot be had; kFailedPrecondition for a rank with other sizes or of another version.
  static Result<std::unique_ptr<SharedGroup>> Join(RendezvousStore& store, const std::string& name,
                                                   int rank, int size, std::size_t bytes,
                                                   Deadline deadline);
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;
  ~SharedGroup();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Whether the cores that all ranks together may run on are as many as they.
  bool has_cores() const { return ranks_per_core_ == 1; }
  // How many ranks take turns on a core, rounded up.
  int ranks_per_core() const { return ranks_per_core_; }
  // The memory, aligned to pages.
  std::byte* memory() const;

  // Looks for some microseconds whether the value is not `seen` any more; not so long where that
  // cannot help. What to try before Await, which is for longer waits.
  bool Spin(const Counter& counter, std::uint32_t seen);
  // Waits until the value is not `seen` any more.
  // Errors: kUnavailable past the deadline, or what CheckPeers says.
  Result<void> Await(Counter& counter, std::uint32_t seen, Deadline deadline);
  // Whether all is well: no rank has died, none has given up.
  Result<void> CheckPeers();
  // The first cause that any rank gives is the one that all ranks hear of.
  void Abort(const Error& cause);

  // Before this rank touches memory of the programs of other ranks, and after it. Errors: the cause
  // that a rank has given up for: it has its memory back.
  Result<void> Reach();
  void EndRemoteAccess();
  // After Abort: until no living rank reaches any more. One that still does at the deadline; none
  // otherwise. This rank has withdrawn.
  std::optional<int> AwaitRemoteAccessEnd(Deadline deadline) const;

 private:
  struct Header;
  SharedGroup(int rank, int size) : rank_(rank), size_(size) {}

  Result<void> Create(RendezvousStore& store, const std::string& key, std::size_t bytes);
  Result<void> Open(RendezvousStore& store, const std::string& key, std::size_t bytes,
                    Deadline deadline);
  Result<void> Map(std::size_t bytes);
  Result<void> TakeLock();
  Result<void> AwaitAll(Deadline deadline);
  // Whether the last writer is on this rank's core though there is one for each.
  bool IsCrowded(const Counter& counter) const;
  Result<void> CheckAbort();
  Header& header() const;
  bool HasDied(int peer) const;
  std::string DescribeLeavers() const;

  int rank_;
  int size_;
  UniqueFd file_;
  // The file once more, for the lock that says that this rank lives: the kernel keeps a lock for as
  // long as somebody has its file mapped, and forked children have what is mapped.
  UniqueFd lock_;
  std::optional<ForkGuard> guard_;  // of the lock
  std::byte* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  bool is_present_ = false;  // this is the rank that others see, not one that was refused
  int ranks_per_core_ = 1;
  std::uint32_t crowded_waits_ = 0;  // for a writer on this rank's core
};

// A file of so many bytes of memory that cannot shrink: who has it mapped may touch all of it,
// whatever others do.
// Errors: kUnavailable.
Result<UniqueFd> MakeMemoryFile(const char* name, std::size_t bytes);
// Opens such a file of another process, or of this one, for reading and writing.
// Errors: kUnavailable; kFailedPrecondition for a file that is shorter, or might become so.
Result<UniqueFd> OpenMemoryFile(std::int64_t process, int file, std::size_t bytes);

}  // namespace espalier::transport
