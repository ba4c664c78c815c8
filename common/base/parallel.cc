#include "common/base/parallel.h"

#include <thread>
#include <vector>

#include "common/base/check.h"

namespace espalier {

void ForRanges(
    int parts, std::size_t count,
    const std::function<void(std::size_t part, std::size_t begin, std::size_t end)>& work) {
  ESPALIER_CHECK(parts >= 1, "parts={}", parts);
  const auto ranges = static_cast<std::size_t>(parts);
  const auto begin_of = [&](std::size_t part) {
    return count / ranges * part + (count % ranges) * part / ranges;
  };
  std::vector<std::thread> threads;
  threads.reserve(ranges - 1);
  for (std::size_t part = 1; part < ranges; ++part) {
    threads.emplace_back([&, part] { work(part, begin_of(part), begin_of(part + 1)); });
  }
  work(0, 0, begin_of(1));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace espalier
