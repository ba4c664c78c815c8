#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "agent/nccl/expectations.h"

namespace espalier::nccl {

struct Event {
  std::uint64_t type = 0;
  std::uint64_t communicator = 0;
  void* other = nullptr;         // the chained plugin's handle
  void* parent = nullptr;        // ours, of a step
  std::uint64_t most_bytes = 0;  // of collectives and point-to-point calls: MostBytes
  std::optional<Expectations::Operation> operation;  // of what the proxy sends
};

// Events by the handles that NCCL holds: numbers, never followed, so that a handle that is stale or
// was never ours finds nothing. What has children that may start after it stopped can still be
// found then, until many others have stopped after it. Not thread-safe. O(1) each, but for
// EndAllOf. Where memory runs out, Add and Stop throw std::bad_alloc and change nothing.
class EventTable {
 public:
  // Null where there are too many.
  void* Add(Event event);
  // Not stopped.
  Event* FindLive(void* handle);
  Event* Find(void* handle);
  void Stop(void* handle);
  // Of a communicator; `last_word` is told of the live ones.
  void EndAllOf(std::uint64_t communicator, const std::function<void(Event&)>& last_word);

 private:
  struct Slot {
    std::uint64_t use = 0;  // how many events it has had
    enum class State : std::uint8_t { kFree, kLive, kStopped } state = State::kFree;
    Event event;
  };
  Slot* SlotOf(void* handle);
  void Free(std::size_t index);

  std::vector<Slot> slots_;
  std::deque<std::size_t> free_;
  std::deque<std::size_t> stopped_;
};

}  // namespace espalier::nccl
