#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "collective/transport/verbs/lane.h"
#include "common/base/result.h"

namespace espalier::transport {

// What a lane looks like to whoever deals out messages.
struct LaneLoad {
  bool can_take = true;
  int failures = 0;
  bool is_spare = false;
  std::size_t in_flight = 0;  // messages and notices
};
// The lane for the next message. Those with the fewest failures carry messages, and among these the
// non-spares. Of several the one that is ahead takes it, that is, which has the fewest in flight: a
// lane whose path is slow gets fewer messages. Equal ones take turns, beginning with `next`. None
// while none of them can take one.
std::optional<std::size_t> LaneForMessage(std::span<const LaneLoad> lanes, std::size_t next);

// The lanes of a connection. The first ones carry messages; the others are spares (LaneForMessage).
// Thread safety: one thread at a time.
class LanePool {
 public:
  // `count`: number of lanes. `ports`: source ports of the lanes that carry messages; empty: one
  // lane carries them, with a port that the device chooses.
  LanePool(const Lane::LaneResources& resources, int count, std::span<const std::uint16_t> ports);

  // Creates a queue pair for each lane. Errors: those of Lane::Make.
  Result<void> Make();
  std::size_t size() const { return lanes_.size(); }
  Lane& operator[](std::size_t index) { return *lanes_[index]; }
  std::span<const std::unique_ptr<Lane>> all() const { return lanes_; }

  // Makes the first lanes carry messages, with these source ports.
  void SetPorts(std::span<const std::uint16_t> ports);
  // Marks a lane whose path is dead and draws another port for it. The dead direction is unknown,
  // so both ends do this.
  void MarkFailed(Lane& lane);
  // The lane for the next message (LaneForMessage); null while none has room.
  Lane* ChooseForMessage();
  // As ChooseForMessage for a notice, which may use any working lane if those have no room.
  Lane* ChooseForNotice();

 private:
  std::uint16_t DrawPort(std::uint16_t without);

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<LaneLoad> loads_;  // scratch
  std::size_t next_ = 0;
  std::mt19937 random_{std::random_device()()};
};

}  // namespace espalier::transport
