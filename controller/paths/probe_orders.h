#pragma once

#include <cstdint>

namespace espalier::controller {

// The parts of the controller that order probes, each with the first number of its orders. The
// number of an order thus tells which part receives the answers.
enum class ProbeOwner : std::uint64_t {
  kPathLearner = 1,
  kOperator = std::uint64_t{3} << 61U,
  kDiscovery = std::uint64_t{7} << 60U,
};

constexpr ProbeOwner OwnerOfOrder(std::uint64_t order) {
  if (order >= static_cast<std::uint64_t>(ProbeOwner::kDiscovery)) return ProbeOwner::kDiscovery;
  if (order >= static_cast<std::uint64_t>(ProbeOwner::kOperator)) return ProbeOwner::kOperator;
  return ProbeOwner::kPathLearner;
}

// Numbers one owner's orders.
class ProbeNumbers {
 public:
  explicit ProbeNumbers(ProbeOwner owner) : next_(static_cast<std::uint64_t>(owner)) {}
  std::uint64_t Next() { return next_++; }

 private:
  std::uint64_t next_;
};

}  // namespace espalier::controller
