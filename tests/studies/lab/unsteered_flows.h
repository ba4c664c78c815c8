#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deploy/lab/workload/workload.h"

namespace espalier::demo {

// Keeps some flows of a workload from the agents, so that they are on plain ECMP and the controller
// does not hear of them: this part of its single flows, to the nearest number, but at least one
// unless it is 0. The seed chooses them. Returns how many.
int HideFlows(traffic::Workload& workload, int percent, std::uint64_t seed);

// The size of a mouse: below the threshold from which agents call a flow an elephant, 1 MiB.
inline constexpr std::int64_t kMouseBytes = 64'000;
inline constexpr const char* kMiceJob = "mice";

// NICs, in the order of their leaves, of a lab of two tiers with one NIC a host.
struct MiceShape {
  std::vector<std::string> nics;
  int nics_per_leaf = 1;
  int percent = 0;     // of the bytes of each NIC
  double seconds = 0;  // in which all mice begin
};

// Moves a part of the bytes of a permutation into mice: each of its flows carries so much less, and
// each NIC sends so much in mice, to the nearest whole number of them. A NIC's k-th mouse goes as
// many NICs further as those of all others, to another leaf, so all send and receive alike. That
// number, and when each mouse begins, are drawn from the seed. Agents hear of mice, and leave them
// to ECMP. Returns the number of mice.
int AddMice(traffic::Workload& permutation, const MiceShape& shape, std::uint64_t seed);

}  // namespace espalier::demo
