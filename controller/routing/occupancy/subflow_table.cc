#include "controller/routing/occupancy/subflow_table.h"

namespace espalier::controller {

SubflowId SubflowTable::Add(std::uint32_t source, std::uint32_t destination, std::int64_t share,
                            bool pinned) {
  SubflowId subflow;
  if (free_.empty()) {
    subflow = SubflowId(static_cast<std::uint32_t>(subflows_.size()));
    subflows_.emplace_back();
  } else {
    subflow = free_.back();
    free_.pop_back();
  }
  // Set field by field, as copying a fresh object would wait for its own stores.
  SubflowState& state = subflows_[subflow.Index()];
  state.candidates =
      view_.clos() || view_.folded_clos() ? nullptr : &view_.Candidates(source, destination);
  state.source = source;
  state.destination = destination;
  state.route = kNoPath;
  state.pinned = pinned;
  state.walk = 0;
  state.in_progress = false;
  state.share = share;
  return subflow;
}

}  // namespace espalier::controller
