#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "common/base/random.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"

namespace espalier::sim {

// Which packets a directed link loses, and how many of them.
struct LossRule {
  double probability = 0;
  std::optional<std::uint8_t> protocol;  // absent: any
  std::optional<std::uint8_t> dscp;
};

// What happens to a single packet on its way.
struct Transit {
  bool arrives = false;
  Duration delay{};
  bool is_marked = false;  // congestion experienced, if the packet is capable of ECN
};

// The troubles of directed links, which single packets meet: losses, queues and marks. Losses are
// drawn from a seed, in the order of the packets.
// Thread safety: none. Complexity: O(hops x log links) for each packet.
class LinkTroubles {
 public:
  explicit LinkTroubles(std::uint64_t seed = 1) : random_(seed) {}
  void SetSeed(std::uint64_t seed) { random_ = Random(seed); }

  // A probability of 0 ends the losses.
  void SetLoss(fabric::DirectedLink link, const LossRule& rule) { Of(link).loss = rule; }
  // Adds the delay of a queue to each packet.
  void SetDelay(fabric::DirectedLink link, Duration delay) { Of(link).delay = delay; }
  void SetMarking(fabric::DirectedLink link, bool marks) { Of(link).marks = marks; }

  // Takes a packet over these links, 5 us each.
  Transit Carry(std::span<const fabric::DirectedLink> links, std::uint8_t protocol,
                std::uint8_t dscp);

 private:
  struct Trouble {
    LossRule loss;
    Duration delay{};
    bool marks = false;
  };
  Trouble& Of(fabric::DirectedLink link) { return troubles_[link.Index()]; }

  std::map<std::size_t, Trouble> troubles_;  // by directed link
  Random random_;
};

}  // namespace espalier::sim
