#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "common/loop/asio_event_loop.h"
#include "deploy/lab/traffic/agent_connection.h"
#include "deploy/lab/traffic/phase_barrier.h"
#include "deploy/lab/traffic/phased_part.h"
#include "deploy/lab/traffic/segment_receiver.h"
#include "deploy/lab/traffic/segment_sender.h"
#include "deploy/lab/traffic/udp_receiver.h"
#include "deploy/lab/traffic/udp_sender.h"
#include "deploy/lab/workload/ring_member.h"
#include "deploy/lab/workload/traffic_report.h"
#include "deploy/lab/workload/workload.h"

namespace espalier::traffic {

struct TrafficHostOptions {
  std::string host;
  bool use_agent = false;
  bool needs_agent = true;  // with use_agent: whether a missing agent is an error
  std::uint64_t seed = 1;   // of the flows' own source ports and of the phased jobs' jitter
  std::string barrier;  // prefix of the sockets at which hosts of phased jobs wait for each other
};

// One host's part in a workload: it receives from its construction to its destruction, and sends
// from Start on.
// Thread safety: the loop's thread.
class TrafficHost {
 public:
  // Errors: kNotFound for hosts that are not in the topology, kUnavailable if a required agent is
  // missing, those of binding the port.
  static Result<std::unique_ptr<TrafficHost>> Make(io::AsioEventLoop& loop,
                                                   const TrafficHostOptions& options,
                                                   const Workload& workload,
                                                   const fabric::Topology& topology);
  ~TrafficHost();

  // Begins to send, each flow at its time; calls on_done once, when this host's flows are done.
  void Start(std::function<void()> on_done);
  HostReport Report() const;

 private:
  struct Member {  // this host's part in one ring
    Member(int ring, const Ring& spec)
        : ring_index(ring), state(RingRounds(spec.hosts.size()), ChunkBytes(spec)) {}
    int ring_index;
    RingMember state;
    std::uint32_t flow = 0;  // flow to the next host
    bool is_reducing = false;
    std::int64_t epoch_start_ns = 0;
  };
  struct JobPart {
    int job_index = 0;
    const Job* job = nullptr;
    int epoch = 0;  // number of finished epochs
    TimerPtr compute;
    std::vector<std::unique_ptr<Member>> members;
  };
  struct Outgoing {
    WorkloadFlow plan;
    IpAddress source;
    IpAddress destination;
    std::vector<std::uint16_t> ports;  // the flow's own ports, one per path
  };

  TrafficHost(io::AsioEventLoop& loop, const TrafficHostOptions& options, const Workload& workload);

  Result<void> Listen(const std::vector<WorkloadFlow>& plans, const IpAddress& address);
  // Whether all of a flow's bytes are acknowledged; of UDP, sent.
  bool IsDone(const WorkloadFlow& plan) const;
  void AddFlow(const WorkloadFlow& plan, const IpAddress& source, const IpAddress& destination);
  void Open(const Outgoing& flow);
  Result<void> JoinPhasedJobs(const std::vector<WorkloadFlow>& plans);
  std::unique_ptr<PhasedPart> MakePhasedPart(int job_index, const std::vector<WorkloadFlow>& plans);
  void HandleAcknowledged(const WorkloadFlow& plan, std::int64_t total);
  JobPart& PartOf(const WorkloadFlow& plan);
  Member& MemberOf(const WorkloadFlow& plan);
  void HandleReceived(std::uint32_t flow, std::int64_t total);
  void BeginCompute(JobPart& part);
  void BeginEpoch(JobPart& part);
  // Handles progress of a member: it may send `chunks` more, or has received or delivered some.
  void Advance(JobPart& part, Member& member, int chunks);
  void CheckDone();
  void Tick();

  io::AsioEventLoop& loop_;
  const TrafficHostOptions options_;
  const Workload workload_;
  std::unique_ptr<AgentConnection> steering_;
  std::unique_ptr<SegmentReceiver> tcp_receiver_;
  std::unique_ptr<UdpReceiver> udp_receiver_;
  std::vector<Outgoing> outgoing_;
  std::vector<TimerPtr> starts_;  // of flows that begin later
  std::map<std::uint32_t, std::unique_ptr<SegmentSender>> tcp_senders_;
  std::map<std::uint32_t, std::unique_ptr<UdpSender>> udp_senders_;
  std::map<int, JobPart> jobs_;
  std::map<std::uint32_t, std::pair<JobPart*, Member*>> receivers_;  // by the ring's incoming flow
  std::map<int, std::unique_ptr<PhasedPart>> phased_;                // by job
  std::unique_ptr<PhaseBarrier> barrier_;
  std::vector<EpochTime> epochs_;
  TimerPtr tick_;
  std::function<void()> on_done_;
};

// A flow's own source port: the same in every run with this seed, and different for all flows of a
// workload. `index` is WorkloadFlow::index.
std::uint16_t DrawPort(std::uint64_t seed, std::uint32_t index);

}  // namespace espalier::traffic
