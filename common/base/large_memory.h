#pragma once

#include <cstddef>
#include <vector>

namespace espalier {

// Asks the system for large pages (2 MiB) in this part of the memory, where it has not been
// touched yet: arrays of many megabytes that are filled once cost mostly page faults otherwise.
// A hint, without effect where there are none. Any thread.
void AdviseLargePages(void* begin, std::size_t bytes);

// reserve(), on large pages.
template <typename T>
void ReserveLarge(std::vector<T>& vector, std::size_t count) {
  vector.reserve(count);
  AdviseLargePages(vector.data(), vector.capacity() * sizeof(T));
}

}  // namespace espalier
