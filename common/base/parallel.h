#pragma once

#include <cstddef>
#include <functional>

namespace espalier {

// Cuts 0 ... count-1 into `parts` ranges of nearly the same length, in order, and calls
// work(part, begin, end) for each at the same time, the first on the calling thread; returns when
// all have returned. Ranges may be empty. What the calls write must be apart. parts >= 1.
void ForRanges(
    int parts, std::size_t count,
    const std::function<void(std::size_t part, std::size_t begin, std::size_t end)>& work);

}  // namespace espalier
