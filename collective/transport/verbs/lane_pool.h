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

// The lanes of a connection: the first carry its messages in turn, the others wait until one of
// those fails. Of lanes that are ready, those carry messages that have failed least, and of them
// those that were meant for it.
// Thread safety: one thread at a time.
class LanePool {
 public:
  // Of `count` lanes; `ports`: the source ports of those that carry messages; none: one, with the
  // port that the device gives it.
  LanePool(const Lane::LaneResources& around, int count, std::span<const std::uint16_t> ports);

  // Makes a queue pair for each. Errors: those of Lane::Make.
  Result<void> Make();
  std::size_t size() const { return lanes_.size(); }
  Lane& operator[](std::size_t index) { return *lanes_[index]; }
  std::span<const std::unique_ptr<Lane>> all() const { return lanes_; }

  // From now on the first lanes carry messages, from these ports.
  void SetPorts(std::span<const std::uint16_t> ports);
  // A lane whose path is dead, one way or the other, which nobody knows: both ends take another
  // port.
  void MarkFailed(Lane& lane);
  // Whose turn it is to take a message; null while none can take more.
  Lane* ChooseForMessage();
  // The same for a notice, which takes any lane that works where none of those can.
  Lane* ChooseForNotice();

 private:
  std::uint16_t DrawPort(std::uint16_t without);

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::size_t next_ = 0;
  std::mt19937 random_{std::random_device()()};
};

}  // namespace espalier::transport
