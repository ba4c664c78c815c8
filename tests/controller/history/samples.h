#pragma once

#include <chrono>
#include <vector>

#include "controller/history/sample_ring.h"

namespace espalier::controller {

// Samples of a fabric with two links and at most one job, with values that tell them apart.
class Samples {
 public:
  // The sample of a second; valid until the next call.
  Sample At(int second, std::uint8_t load = 0) {
    links_.assign(2, LinkRecord{});
    links_[0].load[0] = load;
    links_[0].use[1] = static_cast<std::uint8_t>(second % 200);
    jobs_.assign(1, JobRecord{});
    jobs_[0].job = 7;
    jobs_[0].flows = 4;
    jobs_[0].bps = static_cast<float>(second);
    flows_.assign(1, FlowRecord{});
    flows_[0].source = second;
    flows_[0].bps = static_cast<float>(100 - second);
    FabricRecord fabric;
    fabric.bps = static_cast<float>(second);
    fabric.max_load = static_cast<float>(load);
    fabric.most_loaded = load;
    fabric.moves = 1;
    return {Time(second), fabric, links_, jobs_, flows_};
  }
  static TimePoint Time(int second) { return TimePoint() + std::chrono::seconds(second); }

 private:
  std::vector<LinkRecord> links_;
  std::vector<JobRecord> jobs_;
  std::vector<FlowRecord> flows_;
};

}  // namespace espalier::controller
