// The owners of probe orders.
#include "controller/paths/probe_orders.h"

#include <gtest/gtest.h>

namespace espalier::controller {
namespace {

TEST(ProbeNumbers, IdentifyTheirOwner) {
  for (const ProbeOwner owner :
       {ProbeOwner::kPathLearner, ProbeOwner::kOperator, ProbeOwner::kDiscovery}) {
    ProbeNumbers numbers(owner);
    const std::uint64_t first = numbers.Next();
    EXPECT_EQ(OwnerOfOrder(first), owner);
    EXPECT_EQ(numbers.Next(), first + 1);
    EXPECT_EQ(OwnerOfOrder(first + 1'000'000), owner);
  }
  EXPECT_EQ(OwnerOfOrder(static_cast<std::uint64_t>(ProbeOwner::kOperator) - 1),
            ProbeOwner::kPathLearner);
  EXPECT_EQ(OwnerOfOrder(static_cast<std::uint64_t>(ProbeOwner::kDiscovery) - 1),
            ProbeOwner::kOperator);
}

}  // namespace
}  // namespace espalier::controller
