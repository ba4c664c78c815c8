#pragma once

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::fabric {

// Build regular fabrics. Names: hosts "h0", "h1", ... in leaf order; switches "leaf0", "spine0",
// "agg0", "core0"; links "h0--leaf0", "leaf0--spine0" (end a is in the lower tier).
// Every NIC and every end of a link outside the hosts has an address. By default NIC n has
// 10.0.0.0 + 2n + 1 and its leaf's end 10.0.0.0 + 2n; the m-th link between switches has
// 172.16.0.0 + 2m at its lower and + 2m + 1 at its upper end (none after 172.31.255.255).
// Errors: kInvalidArgument for counts below 1, more than 65,536 nodes per tier or 4,194,304 links,
// leaves (of a pod) that are no multiple of the rails or uplinks, rails, uplinks or spines that are
// no multiple of the planes, rails that are no multiple of the GPUs, or both rails and uplinks.

struct LeafSpineOptions {
  int spines = 4;
  int leaves = 4;
  int hosts_per_leaf = 4;
  BitsPerSecond host_rate{100'000'000'000};
  BitsPerSecond fabric_rate{100'000'000'000};
  int rails = 1;    // NICs of each host
  int planes = 1;   // parts without links between them
  int gpus = 0;     // of each host with several rails, which share its NICs; 0: one for each NIC
  int uplinks = 1;  // of each host, to as many leaves, with one address
};
// Hosts are COMPUTE nodes and their own NICs; every leaf is linked to every spine. With more than
// one rail, groups of `rails` leaves share their hosts: the k-th NIC of each leaf of group g
// belongs to host g * hosts_per_leaf + k. Host h0 is then a box as in BuildRails, with a GPU
// "h0/gpu0" and a NIC "h0/nic0" for each of its leaves, in their order, and nine times host_rate
// between a GPU and the box's switch. With more than one plane, rails and spines are dealt out to
// the planes in their order, and a leaf is linked to the spines of its plane only. Addresses are
// those of a lab of the same shape (docs/formats.md): host h of leaf l has 10.l.h.1, the leaf's end
// 10.l.h.0; uplink s of leaf l has 172.16.l.2s (leaf) and 172.16.l.(2s+1) (spine). Fabrics of more
// than 128 leaves, spines or hosts per leaf have the default addresses.
//
// With more than one uplink, groups of `uplinks` leaves share their hosts, each of which is linked
// to all leaves of its group and chooses among them by a hash. Planes then divide uplinks as they
// do rails. Host h of the group whose first leaf is l has 10.l.h.1, and its link to leaf k of the
// fabric 10.k.h.3, with 10.k.h.2 at the leaf; of larger fabrics only the hosts have addresses.
Result<TopologySpec> BuildLeafSpine(const LeafSpineOptions& options);

struct FatTreeOptions {
  int k = 4;  // even: k pods of k/2 leaves and k/2 aggregation switches, (k/2)^2 cores
  BitsPerSecond host_rate{100'000'000'000};
  BitsPerSecond fabric_rate{100'000'000'000};
};
// A fat tree of k^3/4 hosts, k/2 per leaf; aggregation switch j of each pod (role SPINE) is linked
// to the cores j*k/2 ... (j+1)*k/2 - 1.
Result<TopologySpec> BuildFatTree(const FatTreeOptions& options);

struct PodOptions {
  int pods = 2;
  int leaves_per_pod = 2;
  int aggs_per_pod = 2;
  int cores = 4;  // a multiple of aggs_per_pod; fewer than leaves a plane: oversubscribed
  int hosts_per_leaf = 2;
  BitsPerSecond host_rate{100'000'000'000};
  BitsPerSecond fabric_rate{100'000'000'000};
  int rails = 1;  // NICs of each host, as in LeafSpineOptions
};
// Three tiers of any size. Every leaf is linked to the aggregation switches of its pod (role
// SPINE), and with C cores and A aggregation switches a pod, aggregation switch j of each pod to
// the cores j*C/A ... (j+1)*C/A - 1, its plane.
Result<TopologySpec> BuildPods(const PodOptions& options);

struct RailOptions {
  int boxes = 4;
  int rails = 8;   // GPUs, NICs and rail leaves; GPU r of each box is on leaf r
  int spines = 4;  // 0: rails are not connected
  BitsPerSecond nic_rate{400'000'000'000};
  BitsPerSecond fabric_rate{400'000'000'000};
  BitsPerSecond nvlink_rate{3'600'000'000'000};  // GPU to the box's switch
};
// Each box b is host "box<b>", with GPUs "box0/gpu0", NICs "box0/nic0" (linked to their GPU at
// nic_rate) and one switch "box0/nvswitch". Every rail leaf is linked to every spine.
Result<TopologySpec> BuildRails(const RailOptions& options);

}  // namespace espalier::fabric
