#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/result.h"

namespace espalier::runtime {

// Where a rank is, and a word of its memory by which others find out whether they can read and
// write it.
struct MemoryOwner {
  std::int64_t process = 0;
  std::uint64_t* place = nullptr;
  std::uint64_t word = 0;
};

// The memory of the processes of a host, read and written from one of them: of its own straight, of
// others by process_vm_readv(2) and process_vm_writev(2). The kernel allows that to processes of
// one user that may trace one another; Yama (ptrace_scope), containers and seccomp may forbid it.
// Thread safety: one thread at a time.
class PeerMemory {
 public:
  PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // This one, for others.
  MemoryOwner owner() { return {process_, &word_, word_}; }
  // Tries to read a word of each rank, and to write it again as it is. All of them exist while it
  // does.
  void Meet(std::vector<MemoryOwner> ranks);
  // Whether that has succeeded.
  bool ReadsAll() const { return reads_all_; }
  bool WritesAll() const { return writes_all_; }
  // Copies from a rank's memory, which is valid there and not written to meanwhile.
  // Errors: kUnavailable, with the rank, where it is gone or there is no such memory.
  Result<void> Read(int rank, const std::byte* from, std::byte* to, std::size_t bytes) const;
  // Copies to a rank's memory, which is valid there and not used meanwhile. Errors: as Read.
  Result<void> Write(int rank, const std::byte* from, std::byte* to, std::size_t bytes) const;

 private:
  std::int64_t process_;
  std::uint64_t word_;  // drawn, so that no other process has it
  std::vector<MemoryOwner> ranks_;
  bool reads_all_ = false;
  bool writes_all_ = false;
};

}  // namespace espalier::runtime
