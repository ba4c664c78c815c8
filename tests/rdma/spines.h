#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/rdma/rdma_machine.h"

namespace espalier::rdma {

// Captures the writes of the first leaf's hosts over IPv4 on the links to each spine.
class Spines {
 public:
  Spines() {
    for (int spine = 0; spine < kSpines; ++spine) {
      captures_.emplace_back(fmt::format("spine{}", spine), "l0");
    }
  }

  // The writes from a host over a spine, and their source ports.
  struct Count {
    int packets = 0;
    std::set<std::uint16_t> ports;
  };
  Count& at(int spine, int host) {
    return counts_[static_cast<std::size_t>(spine) * kHostsPerLeaf +
                   static_cast<std::size_t>(host)];
  }
  int PacketsOf(int host) {
    int packets = 0;
    for (int spine = 0; spine < kSpines; ++spine) packets += at(spine, host).packets;
    return packets;
  }
  // The spine that all packets of a host have passed since Clear; -1 if there is no single one.
  int OnlySpineOf(int host) {
    int only = -1;
    for (int spine = 0; spine < kSpines; ++spine) {
      if (at(spine, host).packets == 0) continue;
      if (only >= 0) return -1;
      only = spine;
    }
    return only;
  }
  void Clear() {
    Look();
    counts_ = {};
  }
  void Look() {
    for (int spine = 0; spine < kSpines; ++spine) {
      for (const Packet& packet : captures_[static_cast<std::size_t>(spine)].Take()) {
        for (int host = 0; host < kHostsPerLeaf; ++host) {
          if (!packet.IsWrite() || packet.source != AddressOfHost(host, false)) continue;
          ++at(spine, host).packets;
          at(spine, host).ports.insert(packet.source_port);
        }
      }
    }
  }

 private:
  std::vector<Capture> captures_;
  std::array<Count, static_cast<std::size_t>(kSpines) * kHostsPerLeaf> counts_;
};

}  // namespace espalier::rdma
