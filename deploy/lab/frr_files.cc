#include "deploy/lab/frr_files.h"

#include <fmt/format.h>

namespace espalier::lab {
namespace {

// Of the private numbers 64512 to 65534 (RFC 6996); a tier has at most 128 switches.
constexpr int kTopNumber = 64'512;
constexpr int kFirstPodNumber = 64'600;
constexpr int kFirstLeafNumber = 64'800;

int AsNumber(const LabLayout& layout, const LabNode& node) {
  const LabOptions& options = layout.options();
  if (node.role == Role::kLeaf) return kFirstLeafNumber + node.index;
  if (node.role == Role::kSpine && options.pods != 0) {
    return kFirstPodNumber + node.index / options.spines;
  }
  return kTopNumber;
}

}  // namespace

FrrFiles MakeFrrFiles(const LabLayout& layout, const LabNode& node) {
  FrrFiles files;
  files.zebra = fmt::format("hostname {}\nno zebra nexthop kernel enable\n", node.name);
  files.bfdd =
      "bfd\n"
      " profile lab\n"
      "  transmit-interval 300\n"
      "  receive-interval 300\n"
      "  detect-multiplier 3\n";
  std::string neighbours;
  std::string router_id;
  for (const LabLink& link : layout.links()) {
    for (const auto& [own, other] :
         {std::pair(&link.lower, &link.upper), std::pair(&link.upper, &link.lower)}) {
      const LabNode& neighbour = layout.NodeAt(other->node);
      if (layout.NodeAt(own->node).name != node.name || neighbour.role == Role::kHost) continue;
      if (router_id.empty()) router_id = own->address;
      neighbours += fmt::format(" neighbor {0} remote-as {1}\n neighbor {0} peer-group lab\n",
                                other->address, AsNumber(layout, neighbour));
    }
  }
  files.bgpd = fmt::format(
      "router bgp {}\n"
      " bgp router-id {}\n"
      " no bgp ebgp-requires-policy\n"
      " no bgp default ipv4-unicast\n"
      " no bgp network import-check\n"
      " bgp bestpath as-path multipath-relax\n"
      " neighbor lab peer-group\n"
      " neighbor lab timers 3 9\n"
      " neighbor lab timers connect 1\n"
      " neighbor lab advertisement-interval 0\n"
      " neighbor lab bfd\n"
      " neighbor lab bfd profile lab\n"
      "{}"
      " address-family ipv4 unicast\n"
      "  neighbor lab activate\n"
      "  maximum-paths 128\n",
      AsNumber(layout, node), router_id, neighbours);
  if (node.role == Role::kLeaf) {
    files.bgpd += fmt::format("  network {}\n", layout.LeafPrefix(node.index));
  }
  return files;
}

}  // namespace espalier::lab
