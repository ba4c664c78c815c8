#pragma once

#include <fmt/format.h>

#include <string>

#include "deploy/lab/lab.h"

namespace espalier::demo {

// A direction of a lab's link that loses packets: an nftables rule of the switch that sends.
struct LinkLoss {
  std::string from = "spine1";  // switches
  std::string to = "leaf1";
  double percent = 10;
  std::string match;  // "": all packets; "meta l4proto tcp", "ip dscp 26", ...
};

// A packet is one of the kernel's buffers here, up to 64 KiB of TCP. Replaces earlier losses of the
// same switch.
inline Result<void> LosePackets(const lab::Lab& lab, const LinkLoss& loss) {
  const fabric::Topology& topology = lab.topology();
  for (const fabric::DirectedLink out : topology.Outgoing(*topology.FindNode(loss.from))) {
    if (topology.node(topology.To(out)).id != loss.to) continue;
    const fabric::Link& link = topology.link(out.link);
    const auto done = lab.Run(
        loss.from,
        {"nft",
         fmt::format("add table inet loss; delete table inet loss; add table inet loss;"
                     "add chain inet loss forward {{ type filter hook forward priority 0; }};"
                     "add rule inet loss forward oifname {} {} numgen random mod 10000 < {} "
                     "drop",
                     out.forward ? link.a_port : link.b_port, loss.match,
                     static_cast<int>(loss.percent * 100))});
    if (!done) return tl::unexpected<Error>(done.error());
    return {};
  }
  return Fail(ErrorCode::kNotFound, fmt::format("no link from {} to {}", loss.from, loss.to));
}

inline Result<void> HealLosses(const lab::Lab& lab, const std::string& node) {
  const auto done = lab.Run(node, {"nft", "add table inet loss; delete table inet loss"});
  if (!done) return tl::unexpected<Error>(done.error());
  return {};
}

}  // namespace espalier::demo
