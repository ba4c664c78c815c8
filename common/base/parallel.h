#pragma once

#include <cstddef>
#include <functional>

namespace espalier {

// Splits 0 ... count-1 into `parts` consecutive ranges of nearly equal length and calls
// work(part, begin, end) for all of them in parallel, the first on the calling thread. Returns when
// all calls have returned. Ranges may be empty. The calls must write to separate memory.
// parts >= 1.
void ForRanges(
    int parts, std::size_t count,
    const std::function<void(std::size_t part, std::size_t begin, std::size_t end)>& work);

}  // namespace espalier
