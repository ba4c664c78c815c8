#include "collective/runtime/peer_memory.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "collective/reduce/reduce.h"

namespace espalier::runtime {
namespace {

// Copies from here on would not stay in the caches anyway.
constexpr std::size_t kStreamFrom = 4 << 20;

// Whether all of it was there; errno says why not.
bool ReadProcess(std::int64_t process, const std::byte* from, std::byte* to, std::size_t bytes) {
  while (bytes > 0) {
    const iovec local = {to, bytes};
    const iovec remote = {const_cast<std::byte*>(from), bytes};
    const ssize_t read = ::process_vm_readv(static_cast<pid_t>(process), &local, 1, &remote, 1, 0);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) return false;
    from += read;
    to += read;
    bytes -= static_cast<std::size_t>(read);
  }
  return true;
}

}  // namespace

PeerMemory::PeerMemory()
    : process_(::getpid()),
      word_((std::uint64_t{std::random_device()()} << 32) | std::random_device()()) {}

void PeerMemory::Meet(std::vector<MemoryOwner> ranks) {
  ranks_ = std::move(ranks);
  reads_all_ = std::all_of(ranks_.begin(), ranks_.end(), [&](const MemoryOwner& rank) {
    if (rank.process == process_) return true;
    std::uint64_t word = 0;
    return ReadProcess(rank.process, reinterpret_cast<const std::byte*>(rank.place),
                       reinterpret_cast<std::byte*>(&word), sizeof(word)) &&
           word == rank.word;
  });
}

Result<void> PeerMemory::Read(int rank, const std::byte* from, std::byte* to,
                              std::size_t bytes) const {
  const std::int64_t process = ranks_[static_cast<std::size_t>(rank)].process;
  if (process == process_) {
    reduce::Copy(from, to, bytes,
                 bytes >= kStreamFrom ? reduce::Stores::kStreaming : reduce::Stores::kCached);
    return {};
  }
  if (ReadProcess(process, from, to, bytes)) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("the memory of rank {} cannot be read (process {}): {}", rank, process,
                          std::strerror(errno)));
}

}  // namespace espalier::runtime
