#pragma once

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/rdma/rdma_machine.h"

namespace espalier::rdma {

// Captures the writes of the first leaf's hosts over IPv4, and the acknowledgements that come back
// to them, on the links to each spine.
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
  // The acknowledgements that a host receives over a spine.
  Count& answers_at(int spine, int host) {
    return answers_[static_cast<std::size_t>(spine) * kHostsPerLeaf +
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
    answers_ = {};
  }
  void Look() {
    for (int spine = 0; spine < kSpines; ++spine) {
      for (const Packet& packet : captures_[static_cast<std::size_t>(spine)].Take()) {
        for (int host = 0; host < kHostsPerLeaf; ++host) {
          const IpAddress address = AddressOfHost(host, false);
          if (packet.IsWrite() && packet.source == address) Add(packet, at(spine, host));
          if (packet.IsAcknowledgement() && packet.destination == address) {
            Add(packet, answers_at(spine, host));
          }
        }
      }
    }
  }

 private:
  static void Add(const Packet& packet, Count& count) {
    ++count.packets;
    count.ports.insert(packet.source_port);
  }

  std::vector<Capture> captures_;
  std::array<Count, static_cast<std::size_t>(kSpines) * kHostsPerLeaf> counts_;
  std::array<Count, static_cast<std::size_t>(kSpines) * kHostsPerLeaf> answers_;
};

}  // namespace espalier::rdma
