#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// Where a buffer lies in a memory file of a process, in a form that other processes can map.
struct RegisteredPlace {
  std::int64_t process = 0;
  std::int32_t file = -1;  // none
  std::uint32_t id = 0;    // of that process: never used again
  std::uint64_t file_bytes = 0;
  std::uint64_t offset = 0;
};

// A mapping that goes with its owner.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::byte* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* address_ = nullptr;
  std::size_t bytes_ = 0;
};

// The buffers of this rank that its peers may map, and those of its peers that it has mapped.
// A peer's mapping stays until this goes, but memory that its owner has released holds no pages.
// Thread safety: one thread at a time.
class RegisteredMemory {
 public:
  Result<std::byte*> Allocate(std::size_t bytes);
  Result<void> Release(std::byte* memory);
  // None where not all of it is in one registered buffer.
  std::optional<RegisteredPlace> Find(const std::byte* memory, std::size_t bytes) const;
  // A peer's place in this process, with so many bytes: mapped when first asked for. By value, for
  // peers can write to where it comes from.
  // Errors: kUnavailable; kFailedPrecondition where the peer's buffer has not so many.
  Result<std::byte*> Reach(int peer, RegisteredPlace place, std::size_t bytes);

 private:
  struct Buffer {
    UniqueFd file;
    Mapping mapping;
    std::uint32_t id = 0;
  };
  std::vector<Buffer> own_;
  std::uint32_t last_id_ = 0;
  std::map<std::pair<int, std::uint32_t>, Mapping> peers_;
};

}  // namespace espalier::runtime
