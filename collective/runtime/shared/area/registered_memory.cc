#include "collective/runtime/shared/area/registered_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "collective/transport/shm/shared_group.h"

namespace espalier::runtime {
namespace {

Result<Mapping> Map(int file, std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (address == MAP_FAILED) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("cannot map {} bytes: {}", bytes, std::strerror(errno)));
  }
  // Requests huge pages, which the system may refuse.
  ::madvise(address, bytes, MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(address), bytes);
}

}  // namespace

Mapping::~Mapping() {
  if (address_ != nullptr) ::munmap(address_, bytes_);
}

Result<std::byte*> RegisteredMemory::Allocate(std::size_t bytes) {
  if (bytes == 0) return Fail(ErrorCode::kInvalidArgument, "bytes must be positive");
  auto file = transport::MakeMemoryFile("espalier-buffer", bytes);
  if (!file) return Propagate(file);
  Buffer buffer;
  buffer.file = std::move(*file);
  auto mapping = Map(buffer.file.get(), bytes);
  if (!mapping) return Propagate(mapping);
  buffer.mapping = std::move(*mapping);
  buffer.id = ++last_id_;
  return own_.emplace_back(std::move(buffer)).mapping.address();
}

Result<void> RegisteredMemory::Release(std::byte* memory) {
  const auto found = std::find_if(own_.begin(), own_.end(), [&](const Buffer& buffer) {
    return buffer.mapping.address() == memory;
  });
  if (found == own_.end()) {
    return Fail(ErrorCode::kNotFound,
                "no registered buffer begins there (pass the address from espalier_comm_alloc)");
  }
  // Peers that still map the file keep an empty one.
  ::fallocate(found->file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
              static_cast<off_t>(found->mapping.bytes()));
  own_.erase(found);
  return {};
}

std::optional<RegisteredPlace> RegisteredMemory::Find(const std::byte* memory,
                                                      std::size_t bytes) const {
  for (const Buffer& buffer : own_) {
    const std::byte* begin = buffer.mapping.address();
    const std::byte* end = begin + buffer.mapping.bytes();
    if (std::less<>()(memory, begin) || !std::less<>()(memory, end)) continue;
    const auto offset = static_cast<std::size_t>(memory - begin);
    if (buffer.mapping.bytes() - offset < bytes) continue;
    return RegisteredPlace{.process = ::getpid(),
                           .file = buffer.file.get(),
                           .id = buffer.id,
                           .file_bytes = buffer.mapping.bytes(),
                           .offset = offset};
  }
  return std::nullopt;
}

Result<std::byte*> RegisteredMemory::Reach(int peer, RegisteredPlace place, std::size_t bytes) {
  auto found = peers_.find({peer, place.id});
  if (found == peers_.end()) {
    auto file = transport::OpenMemoryFile(place.process, place.file, place.file_bytes);
    if (!file) return Propagate(file);
    auto mapped = Map(file->get(), place.file_bytes);
    if (!mapped) return Propagate(mapped);
    found = peers_.try_emplace({peer, place.id}, std::move(*mapped)).first;
  }
  const Mapping& mapping = found->second;
  if (place.offset > mapping.bytes() || mapping.bytes() - place.offset < bytes) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("rank {} uses {} bytes at offset {} of a registered buffer of {} bytes",
                            peer, bytes, place.offset, mapping.bytes()));
  }
  return mapping.address() + place.offset;
}

}  // namespace espalier::runtime
