#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/routing/model/assignment.h"

// Fabrics, flows and times of the benchmarks of assignments.
namespace espalier::bench {

struct Times {
  std::vector<double> microseconds;

  template <typename Work>
  void Measure(const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const auto end = std::chrono::steady_clock::now();
    microseconds.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  double Minimum() const { return std::ranges::min(microseconds); }
  double Median() { return Quantile(0.5); }
  double Quantile(double q) {
    std::ranges::sort(microseconds);
    const auto last = static_cast<double>(microseconds.size() - 1);
    return microseconds[static_cast<std::size_t>(q * last)];
  }
};

inline int RepetitionsFor(std::size_t flows) {
  return static_cast<int>(std::clamp<std::size_t>(2'000'000 / (flows + 1), 15, 1'000));
}

struct Fabric {
  explicit Fabric(fabric::TopologySpec spec)
      : topology(*fabric::Topology::Build(std::move(spec))),
        paths(topology),
        view(topology, paths) {}

  fabric::Topology topology;
  fabric::PathTable paths;
  controller::FabricView view;
};

using Flows = std::vector<controller::Commodity>;

// Flows in the order of the hosts, between leaves.
inline Flows Sorted(std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs,
                    std::uint32_t hosts) {
  std::ranges::sort(pairs);
  Flows flows;
  for (const auto& [from, to] : pairs) {
    if (from / hosts == to / hosts) continue;
    flows.push_back({.source = from / hosts, .destination = to / hosts});
  }
  return flows;
}

// Every host sends `count` flows and receives as many, none within its own block of `apart` hosts
// (0: no matter).
inline Flows Permutations(std::uint32_t leaves, std::uint32_t hosts, int count,
                          std::uint32_t apart = 0) {
  std::mt19937 random(leaves * 1'000 + hosts);
  const std::uint32_t all = leaves * hosts;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (int round = 0; round < count; ++round) {
    std::vector<std::uint32_t> to(all);
    for (std::uint32_t i = 0; i < all; ++i) to[i] = i;
    std::ranges::shuffle(to, random);
    for (std::uint32_t i = 0; apart > 0 && i < all; ++i) {
      std::uint32_t other = i;
      const auto clash = [&](std::uint32_t a, std::uint32_t b) { return a / apart == b / apart; };
      while (clash(i, to[other]) || (other != i && clash(other, to[i])))
        other = static_cast<std::uint32_t>(random() % all);
      std::swap(to[i], to[other]);
    }
    for (std::uint32_t i = 0; i < all; ++i) pairs.emplace_back(i, to[i]);
  }
  return Sorted(std::move(pairs), hosts);
}

}  // namespace espalier::bench
