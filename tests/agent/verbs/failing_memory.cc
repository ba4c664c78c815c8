#include "tests/agent/verbs/failing_memory.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace espalier {
namespace {

thread_local int allocations_left = -1;  // negative: none fails
thread_local bool one_failed = false;

void* Allocate(std::size_t bytes, std::size_t alignment) {
  if (allocations_left == 0) {
    one_failed = true;
    throw std::bad_alloc();
  }
  if (allocations_left > 0) --allocations_left;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

void FailAllocationAfter(int allocations) {
  one_failed = false;
  allocations_left = allocations;
}

bool StopFailing() {
  allocations_left = -1;
  return !one_failed;
}

}  // namespace espalier

using espalier::Allocate;

void* operator new(std::size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
