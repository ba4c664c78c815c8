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

// A place in a memory file of some process, described such that other processes can map it.
struct RegisteredPlace {
  std::int64_t process = 0;
  std::int32_t file = -1;  // none
  std::uint32_t id = 0;    // unique within that process
  std::uint64_t file_bytes = 0;
  std::uint64_t offset = 0;
};

// Owns a memory mapping and unmaps it when destroyed.
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

// Owns the registered buffers of this rank, which peers may map, and its mappings of peers'
// buffers. Mappings of peers stay until the destructor, but occupy no pages once the owner has
// released the buffer. Thread safety: one thread at a time.
class RegisteredMemory {
 public:
  Result<std::byte*> Allocate(std::size_t bytes);
  Result<void> Release(std::byte* memory);
  // The place of a memory range; none if no registered buffer contains all of it.
  std::optional<RegisteredPlace> Find(const std::byte* memory, std::size_t bytes) const;
  // The address in this process of `bytes` bytes at a peer's place; maps the buffer on first use.
  // `place` is passed by value because the peer can still change the original.
  // Errors: kUnavailable; kFailedPrecondition if the peer's buffer ends earlier.
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
