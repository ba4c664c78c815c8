#include "collective/runtime/shared/area/peer_memory.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "collective/reduce/reduce.h"

namespace espalier::runtime {
namespace {

// Copies of at least this size exceed the caches and use streaming stores.
constexpr std::size_t kStreamFrom = 4 << 20;

// process_vm_readv or process_vm_writev.
using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                             unsigned long);

// Transfers all bytes between two processes. Returns false and sets errno on failure.
bool Move(Transfer transfer, std::int64_t process, std::byte* own, std::byte* theirs,
          std::size_t bytes) {
  while (bytes > 0) {
    const iovec local = {own, bytes};
    const iovec remote = {theirs, bytes};
    const ssize_t moved = transfer(static_cast<pid_t>(process), &local, 1, &remote, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    own += moved;
    theirs += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

bool ReadProcess(std::int64_t process, const std::byte* from, std::byte* to, std::size_t bytes) {
  return Move(::process_vm_readv, process, to, const_cast<std::byte*>(from), bytes);
}

bool WriteProcess(std::int64_t process, const std::byte* from, std::byte* to, std::size_t bytes) {
  return Move(::process_vm_writev, process, const_cast<std::byte*>(from), to, bytes);
}

void CopyHere(const std::byte* from, std::byte* to, std::size_t bytes) {
  reduce::Copy(from, to, bytes,
               bytes >= kStreamFrom ? reduce::Stores::kStreaming : reduce::Stores::kCached);
}

}  // namespace

PeerMemory::PeerMemory()
    : process_(::getpid()),
      word_((std::uint64_t{std::random_device()()} << 32) | std::random_device()()) {}

void PeerMemory::Meet(std::vector<MemoryOwner> ranks) {
  ranks_ = std::move(ranks);
  reads_all_ = writes_all_ = true;
  for (const MemoryOwner& rank : ranks_) {
    if (rank.process == process_) continue;
    std::uint64_t word = 0;
    auto* const own = reinterpret_cast<std::byte*>(&word);
    auto* const place = reinterpret_cast<std::byte*>(rank.place);
    const bool reads = ReadProcess(rank.process, place, own, sizeof(word)) && word == rank.word;
    reads_all_ = reads_all_ && reads;
    // Writes only where the word matched, so never into an unrelated process.
    writes_all_ = writes_all_ && reads && WriteProcess(rank.process, own, place, sizeof(word));
  }
}

Result<void> PeerMemory::Read(int rank, const std::byte* from, std::byte* to,
                              std::size_t bytes) const {
  const std::int64_t process = ranks_[static_cast<std::size_t>(rank)].process;
  if (process == process_) {
    CopyHere(from, to, bytes);
    return {};
  }
  if (ReadProcess(process, from, to, bytes)) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("cannot read the memory of rank {} (process {}): {}", rank, process,
                          std::strerror(errno)));
}

Result<void> PeerMemory::Write(int rank, const std::byte* from, std::byte* to,
                               std::size_t bytes) const {
  const std::int64_t process = ranks_[static_cast<std::size_t>(rank)].process;
  if (process == process_) {
    CopyHere(from, to, bytes);
    return {};
  }
  if (WriteProcess(process, from, to, bytes)) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("cannot write the memory of rank {} (process {}): {}", rank, process,
                          std::strerror(errno)));
}

}  // namespace espalier::runtime
