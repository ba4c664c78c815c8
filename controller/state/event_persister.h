#pragma once

#include <cstdint>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/wall_time.h"
#include "controller/state/event_history.h"
#include "controller/store/store.h"

namespace espalier::controller {

// Keeps the history of events in the store, over restarts. The history counts in the loop's time,
// the store in the calendar's.
// Thread safety: the controller's loop thread. The references must outlive it.
class EventPersister {
 public:
  EventPersister(EventHistory& history, Store& store, EventLoop& loop, WallClock clock);
  ~EventPersister();  // stores what is new

  // What earlier controllers stored.
  void Restore(const std::vector<StoredEvent>& events);
  // Gives the store what has been recorded since the last call.
  void StoreNew();

 private:
  EventHistory& history_;
  Store& store_;
  EventLoop& loop_;
  WallClock clock_;
  std::uint64_t stored_ = 0;  // sequence of the latest event that the store was given
};

}  // namespace espalier::controller
