#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "collective/transport/verbs/lane.h"
#include "common/base/result.h"

namespace espalier::transport {

// The lanes of a connection. The first ones carry messages in turn; the others are spares. Among
// all lanes, those with the fewest failures carry messages, and among these the non-spares. Thread
// safety: one thread at a time.
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
  // The lane for the next message, in turn; null while none has room.
  Lane* ChooseForMessage();
  // As ChooseForMessage for a notice, which may use any working lane if those have no room.
  Lane* ChooseForNotice();

 private:
  std::uint16_t DrawPort(std::uint16_t without);

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::size_t next_ = 0;
  std::mt19937 random_{std::random_device()()};
};

}  // namespace espalier::transport
