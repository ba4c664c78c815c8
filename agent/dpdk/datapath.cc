#include "agent/dpdk/datapath.h"

#include <fmt/format.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include <algorithm>
#include <utility>

namespace espalier::dpdk {
namespace {

// The argument of a core's function, which deletes it.
struct Work {
  Forwarder* forwarder;
  const std::atomic<bool>* stop;
  Duration idle_sleep;
};

int RunOnCore(void* argument) {
  const std::unique_ptr<Work> work(static_cast<Work*>(argument));
  work->forwarder->Run(*work->stop, work->idle_sleep);
  return 0;
}

}  // namespace

void Datapath::Shown::RaiseTo(std::uint64_t total) {
  if (total <= value) return;
  counter->Add(static_cast<std::int64_t>(total - value));
  value = total;
}

Result<std::unique_ptr<Datapath>> Datapath::Open(const DatapathOptions& options, Metrics& metrics) {
  const unsigned workers = rte_lcore_count() - 1;
  if (workers == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "DPDK has one core but needs at least two: one for the control thread, one for the "
                "ports (for example eal: \"-l\" eal: \"0,1\")");
  }
  std::uint16_t queues = static_cast<std::uint16_t>(std::min(workers, 1024U));
  for (const std::string& name : {options.host_port, options.fabric_port}) {
    Result<std::uint16_t> most = Port::MaxQueues(name);
    if (!most) return Propagate(most);
    queues = std::min(queues, std::max<std::uint16_t>(1, *most));
  }
  Result<Port> host = Port::Open({.name = options.host_port, .queues = queues, .mtu = options.mtu});
  if (!host) return Propagate(host);
  Result<Port> fabric =
      Port::Open({.name = options.fabric_port, .queues = queues, .mtu = options.mtu});
  if (!fabric) return Propagate(fabric);
  return std::unique_ptr<Datapath>(
      new Datapath(options, std::move(*host), std::move(*fabric), queues, metrics));
}

Datapath::Datapath(const DatapathOptions& options, Port host, Port fabric, std::uint16_t cores,
                   Metrics& metrics)
    : idle_sleep_(options.idle_sleep),
      host_(std::move(host)),
      fabric_(std::move(fabric)),
      table_(options.max_flows, cores),
      frames_{&metrics.MakeCounter("espalier_dpdk_frames_total",
                                   "Frames received from the host and from the fabric")},
      roce_{&metrics.MakeCounter("espalier_dpdk_roce_packets_total",
                                 "RoCEv2 packets received from the host and from the fabric")},
      rewritten_{&metrics.MakeCounter("espalier_dpdk_rewritten_packets_total",
                                      "RoCEv2 packets sent with a changed source port")},
      dropped_{&metrics.MakeCounter("espalier_dpdk_dropped_frames_total",
                                    "Frames dropped because the port to send them by was full")},
      lost_events_{&metrics.MakeCounter(
          "espalier_dpdk_lost_events_total",
          "Flow events that the control thread was too slow to read; cores report them again")},
      missed_{&metrics.MakeCounter("espalier_dpdk_port_errors_total",
                                   "Frames that a port's driver lost, or could not receive or "
                                   "send")} {
  for (std::uint16_t core = 0; core < cores; ++core) {
    forwarders_.push_back(std::make_unique<Forwarder>(
        table_, core, patch_, Forwarder::Ports{host_.id(), fabric_.id(), core}));
  }
}

Result<void> Datapath::Start() {
  std::size_t next = 0;
  unsigned core = 0;
  RTE_LCORE_FOREACH_WORKER(core) {
    if (next == forwarders_.size()) break;
    auto work = std::make_unique<Work>(Work{forwarders_[next++].get(), &stop_, idle_sleep_});
    const int status = rte_eal_remote_launch(RunOnCore, work.get(), core);
    if (status != 0) {
      return Fail(ErrorCode::kUnavailable, fmt::format("core {} cannot be started", core));
    }
    (void)work.release();
  }
  return {};
}

Datapath::~Datapath() {
  stop_.store(true);
  rte_eal_mp_wait_lcore();
}

void Datapath::UpdateMetrics() {
  std::uint64_t frames = 0;
  std::uint64_t roce = 0;
  std::uint64_t rewritten = 0;
  std::uint64_t lost = 0;
  std::uint64_t dropped = 0;
  for (const auto& forwarder : forwarders_) {
    const PacketSteeringCounts& counts = forwarder->steering().counts();
    frames += counts.frames.load(std::memory_order_relaxed);
    roce += counts.roce.load(std::memory_order_relaxed);
    rewritten += counts.rewritten.load(std::memory_order_relaxed);
    lost += counts.lost_events.load(std::memory_order_relaxed);
    dropped += forwarder->dropped();
  }
  frames_.RaiseTo(frames);
  roce_.RaiseTo(roce);
  rewritten_.RaiseTo(rewritten);
  lost_events_.RaiseTo(lost);
  dropped_.RaiseTo(dropped);
  missed_.RaiseTo(host_.Missed() + fabric_.Missed());
}

}  // namespace espalier::dpdk
