#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/simulator.h"

namespace espalier::offline {

enum class Damage : std::uint8_t { kNone, kDead, kHalfRate };
std::string_view DamageName(Damage damage);  // "none", "dead", "half rate"

// Finds the link to damage: the one of this name, or, if the name is empty, the first link in use
// between a leaf and a switch above it.
// Errors: kInvalidArgument if there is none, or if it is not such a link.
Result<fabric::LinkId> FindUplink(const fabric::Topology& topology, std::string_view name);

// Returns the fabric with this link dead or at half its rate in both directions.
fabric::Topology BuildDamaged(const fabric::Topology& topology, fabric::LinkId link, Damage damage);

// Makes one job in which every NIC sends to one NIC of another leaf, and receives from one, drawn
// by the seed.
// Errors: kFailedPrecondition if a leaf has more than half of all NICs.
Result<std::vector<Job>> MakePermutation(const fabric::Topology& topology, std::uint64_t seed);

// Makes `count` jobs, each a ring of NICs, of which neighbours are on different leaves as far as
// leaves have equally many. Every NIC is in one ring. Drawn by the seed.
// Errors: kFailedPrecondition for fewer than two NICs a job.
Result<std::vector<Job>> MakeRings(const fabric::Topology& topology, int count, std::uint64_t seed);

// The least time until the last of these flows can end, if each sends `bits` and can be divided at
// will: what each leaf and each NIC sends or receives, over the capacity that it has. Until
// `change` the fabric is `before`, from then on `after`. Times are in nanoseconds. O(flows +
// links).
struct FabricChange {
  const fabric::Topology& before;
  const fabric::Topology& after;
  double change_ns = 0;
};
double FractionalBound(const Workload& workload, const FabricChange& fabric, double bits);

}  // namespace espalier::offline
