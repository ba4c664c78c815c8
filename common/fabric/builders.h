#pragma once

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::fabric {

// Regular fabrics. Names: hosts "h0", "h1", ... in leaf order; switches "leaf0", "spine0",
// "agg0", "core0"; links "h0--leaf0", "leaf0--spine0" (the lower tier is end a).
// Every NIC has an address, and so has every end of a link outside the hosts: by default NIC n has
// 10.0.0.0 + 2n + 1 and its leaf's end 10.0.0.0 + 2n; the m-th link between switches has
// 172.16.0.0 + 2m at its lower and + 2m + 1 at its upper end (none past 172.31.255.255).
// Errors: kInvalidArgument for counts below 1, beyond 65,536 nodes a tier or 4,194,304 links.

struct LeafSpineOptions {
  int spines = 4;
  int leaves = 4;
  int hosts_per_leaf = 4;
  BitsPerSecond host_rate{100'000'000'000};
  BitsPerSecond fabric_rate{100'000'000'000};
};
// Hosts are COMPUTE, their own NICs; every leaf is joined to every spine. Addresses are those of
// a lab of the same shape (docs/formats.md): host h of leaf l is 10.l.h.1, the leaf's end
// 10.l.h.0; uplink s of leaf l is 172.16.l.2s (leaf) and 172.16.l.(2s+1) (spine), for up to 128
// leaves, spines and hosts a leaf; larger fabrics have the default addresses.
Result<TopologySpec> BuildLeafSpine(const LeafSpineOptions& options);

struct FatTreeOptions {
  int k = 4;  // even: k pods of k/2 leaves and k/2 aggregation switches, (k/2)^2 cores
  BitsPerSecond host_rate{100'000'000'000};
  BitsPerSecond fabric_rate{100'000'000'000};
};
// k^3/4 hosts, k/2 a leaf; aggregation switch j of each pod (role SPINE) is joined to the cores
// j*k/2 ... (j+1)*k/2 - 1.
Result<TopologySpec> BuildFatTree(const FatTreeOptions& options);

struct RailOptions {
  int boxes = 4;
  int rails = 8;   // GPUs, NICs and rail leaves; GPU r of each box is on leaf r
  int spines = 4;  // 0: rails are not joined
  BitsPerSecond nic_rate{400'000'000'000};
  BitsPerSecond fabric_rate{400'000'000'000};
  BitsPerSecond nvlink_rate{3'600'000'000'000};  // GPU to the box's switch
};
// Each box b is host "box<b>": GPUs "box0/gpu0", NICs "box0/nic0" (joined to their GPU at
// nic_rate), one switch "box0/nvswitch". Every rail leaf is joined to every spine.
Result<TopologySpec> BuildRails(const RailOptions& options);

}  // namespace espalier::fabric
