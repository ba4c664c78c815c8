#include "tests/bench/control_loop_fabric.h"

#include <algorithm>
#include <utility>

#include "common/fabric/builders.h"

namespace espalier::bench {

namespace {

constexpr int kHostsPerLeaf = 32;

int LeafCount(int hosts) { return std::max(2, (hosts + kHostsPerLeaf - 1) / kHostsPerLeaf); }

}  // namespace

fabric::Topology MakeBenchTopology(int hosts, int spines) {
  auto spec = fabric::BuildLeafSpine(
                  {.spines = spines, .leaves = LeafCount(hosts), .hosts_per_leaf = kHostsPerLeaf})
                  .value();
  std::uint64_t seed = 1;
  for (fabric::Node& node : spec.nodes) {
    if (node.kind == fabric::NodeKind::kSwitch) node.ecmp = {"crc32", seed++};
  }
  return fabric::Topology::Build(std::move(spec)).value();
}

int RemoteHost(int host, int n, int hosts) {
  const int leaves = LeafCount(hosts);
  const int leaf = (host / kHostsPerLeaf + 1 + n % (leaves - 1)) % leaves;
  return leaf * kHostsPerLeaf + (host + n) % kHostsPerLeaf;
}

}  // namespace espalier::bench
