#include "tests/studies/lab/unsteered_flows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace espalier::demo {
namespace {

// A number from 0 to count - 1.
std::size_t Draw(std::mt19937_64& random, std::size_t count) { return random() % count; }

}  // namespace

int HideFlows(traffic::Workload& workload, int percent, std::uint64_t seed) {
  const std::size_t flows = workload.flows.size();
  if (percent == 0 || flows == 0) return 0;
  const auto nearest = static_cast<std::size_t>(
      std::lround(static_cast<double>(flows) * static_cast<double>(percent) / 100));
  const std::size_t hidden = std::clamp<std::size_t>(nearest, 1, flows);
  std::vector<std::size_t> order(flows);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < hidden; ++i) {
    std::swap(order[i], order[i + Draw(random, flows - i)]);
    workload.flows[order[i]].announced = false;
  }
  return static_cast<int>(hidden);
}

int AddMice(traffic::Workload& permutation, const MiceShape& shape, std::uint64_t seed) {
  if (shape.percent == 0 || permutation.flows.empty()) return 0;
  const std::int64_t all = permutation.flows.front().bytes;
  const auto mice =
      static_cast<int>(std::lround(static_cast<double>(all * shape.percent) / 100 / kMouseBytes));
  for (traffic::SingleFlow& flow : permutation.flows) flow.bytes -= mice * kMouseBytes;
  const std::size_t nics = shape.nics.size();
  const auto per_leaf = static_cast<std::size_t>(shape.nics_per_leaf);
  const auto milliseconds = static_cast<std::size_t>(std::max(1.0, 1'000 * shape.seconds));
  std::mt19937_64 random(seed);
  for (int k = 0; k < mice; ++k) {
    // Fewer NICs further in either direction may be on the same leaf.
    const std::size_t further = per_leaf + Draw(random, nics - 2 * per_leaf + 1);
    for (std::size_t nic = 0; nic < nics; ++nic) {
      const double start = static_cast<double>(Draw(random, milliseconds)) / 1'000;
      permutation.flows.push_back({.id = fmt::format("mouse-{}-{}", k, shape.nics[nic]),
                                   .job = kMiceJob,
                                   .source = shape.nics[nic],
                                   .destination = shape.nics[(nic + further) % nics],
                                   .bytes = kMouseBytes,
                                   .start_seconds = start});
    }
  }
  return mice * static_cast<int>(nics);
}

}  // namespace espalier::demo
