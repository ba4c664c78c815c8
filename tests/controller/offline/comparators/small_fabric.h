#pragma once

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "common/fabric/builders.h"
#include "tests/controller/routing/test_fabric.h"

namespace espalier::offline {

// Small leaf-spine fabrics; every third has links of unequal rates, every second some that fail.
inline std::unique_ptr<controller::Fabric> SmallFabric(std::mt19937& random, int round) {
  auto spec = *fabric::BuildLeafSpine({.spines = 2 + round % 2, .leaves = 3, .hosts_per_leaf = 1});
  for (fabric::Link& link : spec.links) {
    const bool joins_switches = link.id.find("spine") != std::string::npos;
    if (round % 3 == 0 && random() % 3 == 0) link.rate = BitsPerSecond{40'000'000'000};
    if (round % 2 == 1 && joins_switches && random() % 8 == 0) {
      link.state = fabric::LinkState::kDown;
    }
  }
  return std::make_unique<controller::Fabric>(std::move(spec));
}

}  // namespace espalier::offline
