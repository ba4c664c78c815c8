#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/strong_id.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/offline/simulation/fluid_network.h"
#include "controller/offline/simulation/simulator.h"

namespace espalier::offline {

// The transfers of a workload's flows, at most one for each flow at a time, over links that are
// shared max-min fairly. Times are in nanoseconds. The paths must outlive it. Thread safety: one
// thread.
class Senders {
 public:
  Senders(const fabric::Topology& topology, fabric::PathTable& paths, std::size_t flows);

  // One transfer of a flow.
  struct Sending {
    std::uint64_t serial = 0;  // 0: the flow has not sent yet
    FluidNetwork::Transfer transfer = 0;
    std::int32_t path = -1;  // index into PathsOf; -1: it needs none
    double bits = 0;
    bool is_sent = false;
  };
  const Sending& At(std::uint32_t flow) const { return sendings_[flow]; }
  // The paths between the flow's leaves; none within one leaf.
  std::span<const fabric::Path> PathsOf(const SimulatedFlow& flow);

  void Start(std::uint32_t flow, const SimulatedFlow& spec, std::uint64_t serial, double bits,
             std::int32_t path);
  // Sends the remaining bits over another path.
  void Reroute(std::uint32_t flow, const SimulatedFlow& spec, std::int32_t path, std::int64_t now);
  // The remaining bits.
  double Left(std::uint32_t flow, std::int64_t now) {
    return network_.Left(sendings_[flow].transfer, now);
  }

  std::optional<std::int64_t> NextEnd() { return network_.NextEnd(); }
  // The flows that have sent all their bits by `now`; valid until the next call.
  std::span<const std::uint32_t> TakeEnded(std::int64_t now);
  // To be called after all changes at `now`.
  void Settle(std::int64_t now) { network_.Settle(now); }

 private:
  void Send(std::uint32_t flow, const SimulatedFlow& spec, double bits);

  fabric::PathTable& paths_;
  FluidNetwork network_;
  std::vector<Sending> sendings_;       // by flow
  std::vector<std::uint32_t> flow_of_;  // by transfer
  std::vector<std::uint32_t> ended_;
};

}  // namespace espalier::offline
