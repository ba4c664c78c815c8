#pragma once

#include <cstdint>

namespace espalier::controller {

// Who has ordered probes: the answers are handed to it. Each numbers its orders from its own first
// number, so that the number of an order tells whose it is.
enum class ProbeOwner : std::uint64_t {
  kPathLearner = 1,
  kLinkRecovery = std::uint64_t{1} << 61U,
  kLinkFailure = std::uint64_t{1} << 62U,
};

constexpr ProbeOwner OwnerOfOrder(std::uint64_t order) {
  if (order >= static_cast<std::uint64_t>(ProbeOwner::kLinkFailure))
    return ProbeOwner::kLinkFailure;
  if (order >= static_cast<std::uint64_t>(ProbeOwner::kLinkRecovery)) {
    return ProbeOwner::kLinkRecovery;
  }
  return ProbeOwner::kPathLearner;
}

// The numbers of one owner's orders: each once.
class ProbeNumbers {
 public:
  explicit ProbeNumbers(ProbeOwner owner) : next_(static_cast<std::uint64_t>(owner)) {}
  std::uint64_t Next() { return next_++; }

 private:
  std::uint64_t next_;
};

}  // namespace espalier::controller
