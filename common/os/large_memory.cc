#include "common/os/large_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace espalier {
namespace {

constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;

// From a quarter of a large page on, a whole large page is used.
bool IsLarge(std::size_t bytes) { return bytes >= kLargePage / 4; }
std::align_val_t Alignment(std::size_t bytes, std::size_t alignment) {
  return std::align_val_t{std::max<std::size_t>(alignment, IsLarge(bytes) ? kLargePage : 16)};
}

}  // namespace

void* AllocateLarge(std::size_t bytes, std::size_t alignment) {
  const std::size_t whole =
      IsLarge(bytes) ? (bytes + kLargePage - 1) / kLargePage * kLargePage : bytes;
  void* const memory = ::operator new(whole, Alignment(bytes, alignment));
  AdviseLargePages(memory, whole);
  return memory;
}

void FreeLarge(void* memory, std::size_t bytes, std::size_t alignment) {
  ::operator delete(memory, Alignment(bytes, alignment));
}

void AdviseLargePages(void* begin, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kLargePage - 1) / kLargePage * kLargePage;
  const std::uintptr_t last = (address + bytes) / kLargePage * kLargePage;
  if (begin == nullptr || first >= last) return;
  ::madvise(static_cast<char*>(begin) + (first - address), last - first, MADV_HUGEPAGE);
}

}  // namespace espalier
