#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "agent/dpdk/forwarder.h"
#include "agent/dpdk/port.h"
#include "common/base/metrics.h"
#include "common/base/result.h"

namespace espalier::dpdk {

struct DatapathOptions {
  std::string host_port;
  std::string fabric_port;
  std::uint32_t mtu = 0;
  std::uint32_t max_flows = 8192;
  Duration idle_sleep{};
};

// Two ports and the cores that forward between them: all cores of DPDK's environment except the one
// of the control thread. Each core has one queue of both ports; cores without a queue stay idle.
// Thread safety: the control thread.
class Datapath {
 public:
  // Requires DPDK's environment to run. Errors: those of Port; kInvalidArgument if there is only
  // one core.
  static Result<std::unique_ptr<Datapath>> Open(const DatapathOptions& options, Metrics& metrics);
  // Waits until the cores have finished their bursts.
  ~Datapath();
  Datapath(const Datapath&) = delete;
  Datapath& operator=(const Datapath&) = delete;

  // Starts the cores. To be called once.
  Result<void> Start();

  DatapathFlowTable& table() { return table_; }
  const Port& host() const { return host_; }
  const Port& fabric() const { return fabric_; }
  std::size_t cores() const { return forwarders_.size(); }
  SpscRing<FlowEvent>& events(std::size_t core) { return forwarders_[core]->steering().events(); }
  // Updates the metrics from the counts of the cores.
  void UpdateMetrics();

 private:
  // A metric and its last value.
  struct Shown {
    Counter* counter;
    std::uint64_t value = 0;
    void RaiseTo(std::uint64_t total);
  };
  Datapath(const DatapathOptions& options, Port host, Port fabric, std::uint16_t cores,
           Metrics& metrics);

  const Duration idle_sleep_;
  Port host_;
  Port fabric_;
  const IcrcPatch patch_;
  DatapathFlowTable table_;
  std::vector<std::unique_ptr<Forwarder>> forwarders_;
  std::atomic<bool> stop_{false};
  Shown frames_;
  Shown roce_;
  Shown rewritten_;
  Shown dropped_;
  Shown lost_events_;
  Shown missed_;
};

}  // namespace espalier::dpdk
