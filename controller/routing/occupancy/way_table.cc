#include "controller/routing/occupancy/way_table.h"

namespace espalier::controller {

WayId WayTable::Add(std::uint32_t source, std::uint32_t destination, std::int64_t share,
                    bool pinned) {
  WayId way;
  if (free_.empty()) {
    way = WayId(static_cast<std::uint32_t>(ways_.size()));
    ways_.emplace_back();
  } else {
    way = free_.back();
    free_.pop_back();
  }
  // (Field by field: a copy of a fresh object would wait for its own stores.)
  WayState& state = ways_[way.Index()];
  state.candidates = view_.clos() ? nullptr : &view_.Candidates(source, destination);
  state.source = source;
  state.destination = destination;
  state.route = kNoPath;
  state.pinned = pinned;
  state.walk = 0;
  state.live = false;
  state.share = share;
  return way;
}

}  // namespace espalier::controller
