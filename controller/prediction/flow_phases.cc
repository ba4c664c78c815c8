#include "controller/prediction/flow_phases.h"

namespace espalier::controller {

void FlowPhases::Set(std::span<const Job> jobs) {
  places_.clear();
  flows_ = 0;
  for (std::uint32_t job = 0; job < jobs.size(); ++job) {
    for (std::uint32_t phase = 0; phase < jobs[job].size(); ++phase) {
      for (const FlowSlot slot : jobs[job][phase]) {
        if (slot.Index() >= places_.size()) places_.resize(slot.Index() + 1);
        std::vector<Place>& places = places_[slot.Index()];
        if (places.empty()) ++flows_;
        places.push_back({job, phase});
      }
    }
  }
}

void FlowPhases::Forget(FlowSlot slot) {
  if (slot.Index() >= places_.size() || places_[slot.Index()].empty()) return;
  places_[slot.Index()].clear();
  --flows_;
}

}  // namespace espalier::controller
