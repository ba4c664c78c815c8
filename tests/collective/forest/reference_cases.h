#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "collective/forest/model/problem.h"
#include "common/fabric/topology.h"

namespace espalier::forest {

// Topologies by the names of the reference table, with rates in its units: GB/s (8 Gbit/s) for
// machines, 1 Gbit/s for abstract graphs. Names: figB1, ring8, uring8, hcube3, torus4x4,
// torus3x3x3, a100_<boxes>, h100_<boxes>, mi250_<boxes>, mi250_8p8,
// clos<leaves>x<hosts>s<spines>[_<fabric rate>]. A failure may follow, as in "a100_128+deadnic":
//   deadnic    the links of box 0's NIC (or GPU) 0 to the fabric are down
//   deadnics   the links of every 37th NIC (or GPU) to the fabric are down
//   slownic    the links of box 0's NIC (or GPU) 0 have half of the bandwidth
//   deadgpu    the first compute node and its links are gone
//   deadspine  all links of the last spine are down
//   deadlink   the first link between leaf and spine is down
//   random<n>  some links to the fabric down, some at half the rate, some trunks down, by seed n
fabric::TopologySpec MakeReferenceTopology(std::string_view name);
fabric::Topology BuildTopology(fabric::TopologySpec spec);
Problem MakeReferenceProblem(std::string_view name);

// The known results of a reference case.
struct ReferenceRow {
  std::string_view name;
  int ranks;
  int nodes;
  int arcs;
  std::string_view inverse_rate;  // 1/x* in the units of the table
  std::string_view scale;         // U
  int trees;                      // k
  // U_1 ... U_5: the best scales for 1 to 5 trees per root.
  std::array<std::string_view, 5> fixed_scales;
};
const std::vector<ReferenceRow>& ReferenceRows();

// Converts a value per unit of the problem to one per unit of the table.
Rational PerTableUnit(std::string_view name, const Problem& problem, const Rational& per_unit);

}  // namespace espalier::forest
