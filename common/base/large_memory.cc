#include "common/base/large_memory.h"

#include <sys/mman.h>

#include <cstdint>

namespace espalier {

void AdviseLargePages(void* begin, std::size_t bytes) {
  constexpr std::uintptr_t kLargePage = std::uintptr_t{2} << 20;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kLargePage - 1) / kLargePage * kLargePage;
  const std::uintptr_t last = (address + bytes) / kLargePage * kLargePage;
  if (begin == nullptr || first >= last) return;
  ::madvise(static_cast<char*>(begin) + (first - address), last - first, MADV_HUGEPAGE);
}

}  // namespace espalier
