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
  void* other = nullptr;         // the other plugin's handle
  void* parent = nullptr;        // of a proxy step: this plugin's handle of its proxy operation
  std::uint64_t most_bytes = 0;  // MostBytes of a collective or point-to-point call
  std::optional<Expectations::Operation> operation;  // of a proxy operation that sends
};

// Finds events by the handles that NCCL holds. Handles are numbers and never dereferenced, so stale
// and foreign handles find nothing. An event whose children may start after it has stopped can
// still be found, until many others have stopped after it. Not thread-safe. Complexity: O(1),
// except EndAllOf. If memory runs out, Add and Stop throw std::bad_alloc and change nothing.
class EventTable {
 public:
  // Returns the event's handle; null if there are too many events.
  void* Add(Event event);
  // Finds an event that has not stopped; else null.
  Event* FindLive(void* handle);
  Event* Find(void* handle);
  void Stop(void* handle);
  // Ends all events of a communicator; calls `last_word` for those that have not stopped.
  void EndAllOf(std::uint64_t communicator, const std::function<void(Event&)>& last_word);

 private:
  struct Slot {
    std::uint64_t use = 0;  // number of events that have used it
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
