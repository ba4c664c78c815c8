#pragma once

#include <cstdint>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/base/time/wall_time.h"
#include "controller/state/event_history.h"
#include "controller/store/store.h"

namespace espalier::controller {

// Keeps the event history in the store, so that it survives restarts. It converts between the loop
// time of the history and the wall time of the store.
// Thread safety: the controller's loop thread. The references must outlive it.
class EventPersister {
 public:
  EventPersister(EventHistory& history, Store& store, EventLoop& loop, WallClock clock);
  ~EventPersister();  // stores new events

  // Restores the events that earlier controllers stored.
  void Restore(const std::vector<StoredEvent>& events);
  // Gives the store the events that were recorded since the last call.
  void StoreNew();

 private:
  EventHistory& history_;
  Store& store_;
  EventLoop& loop_;
  WallClock clock_;
  std::uint64_t stored_ = 0;  // sequence of the latest event that the store has
};

}  // namespace espalier::controller
