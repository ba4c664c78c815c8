#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/result.h"

namespace espalier::runtime {

// A rank's process, and a word in its memory with which other ranks test their access.
struct MemoryOwner {
  std::int64_t process = 0;
  std::uint64_t* place = nullptr;
  std::uint64_t word = 0;
};

// Reads and writes the memory of other ranks on this host, by process_vm_readv(2) and
// process_vm_writev(2), or by a plain copy within one process. The kernel allows this to processes
// of one user that may trace each other; Yama (ptrace_scope), containers and seccomp may forbid it.
// Thread safety: one thread at a time.
class PeerMemory {
 public:
  PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // This rank's word, to be passed to the other ranks.
  MemoryOwner owner() { return {process_, &word_, word_}; }
  // Tests the access to every rank: reads its word and writes it back unchanged. All ranks must
  // exist meanwhile.
  void Meet(std::vector<MemoryOwner> ranks);
  // Whether the test has succeeded for all ranks.
  bool ReadsAll() const { return reads_all_; }
  bool WritesAll() const { return writes_all_; }
  // Copies from a rank's memory, which must be valid there and not be written meanwhile.
  // Errors: kUnavailable, with the rank, if its process or the memory does not exist.
  Result<void> Read(int rank, const std::byte* from, std::byte* to, std::size_t bytes) const;
  // Copies to a rank's memory, which must be valid there and not be used meanwhile. Errors: as
  // Read.
  Result<void> Write(int rank, const std::byte* from, std::byte* to, std::size_t bytes) const;

 private:
  std::int64_t process_;
  std::uint64_t word_;  // random, so that it identifies this process's memory
  std::vector<MemoryOwner> ranks_;
  bool reads_all_ = false;
  bool writes_all_ = false;
};

}  // namespace espalier::runtime
