#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace espalier::sim {

// The max-min fair rates of flows on fixed paths: no flow's rate can grow without that of another,
// which is no faster, becoming smaller (Bertsekas and Gallager, Data Networks, section 6.5.2).
//
// Input: the capacity of each link (>= 0, any unit), and for each flow the links it passes
// (indices; none twice). A flow on no link has no limit and gets `unlimited`.
// Output: the rate of each flow, in the unit of the capacities.
// Method: water-filling. All rates grow together; the link that is full first fixes its flows.
// Complexity: O(S log S) for S = sum of the paths' lengths + links.
std::vector<double> ComputeMaxMinRates(std::span<const double> capacities,
                                       std::span<const std::span<const std::uint32_t>> paths,
                                       double unlimited);

}  // namespace espalier::sim
