#include "tests/bench/control_loop_fabric.h"

#include <algorithm>
#include <utility>

#include "common/fabric/builders.h"

namespace espalier::bench {

namespace {

constexpr int kHostsPerLeaf = 32;

int LeafCount(int hosts) { return std::max(2, (hosts + kHostsPerLeaf - 1) / kHostsPerLeaf); }

}  // namespace

fabric::Topology MakeBenchTopology(int hosts, int spines, int fat_tree) {
  auto spec =
      (fat_tree > 0
           ? fabric::BuildFatTree({.k = fat_tree})
           : fabric::BuildLeafSpine(
                 {.spines = spines, .leaves = LeafCount(hosts), .hosts_per_leaf = kHostsPerLeaf}))
          .value();
  std::uint64_t seed = 1;
  for (fabric::Node& node : spec.nodes) {
    if (node.kind == fabric::NodeKind::kSwitch) node.ecmp = {"crc32", seed++};
  }
  return fabric::Topology::Build(std::move(spec)).value();
}

int RemoteHost(int host, int n, int hosts, int fat_tree) {
  if (fat_tree > 0) {
    const int half = fat_tree / 2;
    const int of_pod = half * half;
    const int pod = (host / of_pod + 1 + n % (fat_tree - 1)) % fat_tree;
    return pod * of_pod + host % of_pod / half * half + (host + n) % half;
  }
  const int leaves = LeafCount(hosts);
  const int leaf = (host / kHostsPerLeaf + 1 + n % (leaves - 1)) % leaves;
  return leaf * kHostsPerLeaf + (host + n) % kHostsPerLeaf;
}

}  // namespace espalier::bench
