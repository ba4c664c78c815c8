#include "deploy/lab/traffic/traffic_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "deploy/lab/traffic/endpoint.h"

namespace espalier::traffic {
namespace {

Result<IpAddress> AddressOf(const fabric::Topology& topology, const std::string& host) {
  const std::optional<fabric::NodeId> node = topology.FindNode(host);
  if (!node || topology.node(*node).addresses.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("host '{}' is not in the topology, or has no address (of a host with "
                            "several NICs, name one, such as h0/nic0)",
                            host));
  }
  return topology.node(*node).addresses.front();
}

// The segments of a flow with this many paths: small enough that a path that is slow or dead holds
// back little of the flow, while the others take the rest.
std::int64_t SegmentBytes(std::int64_t of_one_path, std::size_t paths) {
  constexpr std::int64_t kLeast = 32'000;
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(1, paths));
  return std::max(of_one_path / count, std::min(of_one_path, kLeast));
}

}  // namespace

std::uint16_t DrawPort(std::uint64_t seed, std::uint32_t index) {
  // A bijection of 14-bit numbers that the seed selects: odd factors and shifts are invertible.
  constexpr std::uint64_t kMask = kSourcePortCount - 1;
  std::mt19937_64 random(seed);
  std::uint64_t x = (index + random()) & kMask;
  for (int round = 0; round < 3; ++round) {
    x = (x * (random() | 1)) & kMask;
    x ^= x >> 7;
  }
  return static_cast<std::uint16_t>(kFirstSourcePort + x);
}

TrafficHost::TrafficHost(io::AsioEventLoop& loop, const TrafficHostOptions& options,
                         const Workload& workload)
    : loop_(loop), options_(options), workload_(workload) {}

TrafficHost::~TrafficHost() {
  // Flows must end before the connection to the agent.
  for (auto& [index, sender] : tcp_senders_) sender->Finish();
  for (auto& [index, sender] : udp_senders_) sender->Finish();
}

Result<std::unique_ptr<TrafficHost>> TrafficHost::Make(io::AsioEventLoop& loop,
                                                       const TrafficHostOptions& options,
                                                       const Workload& workload,
                                                       const fabric::Topology& topology) {
  std::unique_ptr<TrafficHost> host(new TrafficHost(loop, options, workload));
  const Result<IpAddress> own = AddressOf(topology, options.host);
  if (!own) return tl::unexpected(own.error());
  const std::vector<WorkloadFlow> plans = ListWorkloadFlows(host->workload_);
  if (Result<void> listening = host->Listen(plans, *own); !listening) return Propagate(listening);
  if (Result<void> joined = host->JoinPhasedJobs(plans); !joined) return Propagate(joined);
  if (options.use_agent) {
    Result<std::unique_ptr<AgentConnection>> steering =
        AgentConnection::Connect(loop, [raw = host.get()] {
          for (auto& [index, sender] : raw->tcp_senders_) sender->HandleNews();
        });
    if (!steering && options.needs_agent) return Propagate(steering);
    if (steering) host->steering_ = std::move(*steering);
  }
  for (const WorkloadFlow& plan : plans) {
    if (plan.source == options.host) {
      const Result<IpAddress> destination = AddressOf(topology, plan.destination);
      if (!destination) return tl::unexpected(destination.error());
      host->AddFlow(plan, *own, *destination);
    }
    if (plan.destination == options.host && plan.job_index >= 0) {
      host->receivers_[plan.index] = {&host->PartOf(plan), &host->MemberOf(plan)};
    }
  }
  return host;
}

Result<void> TrafficHost::Listen(const std::vector<WorkloadFlow>& plans, const IpAddress& address) {
  std::vector<std::uint32_t> tcp;
  std::vector<std::uint32_t> udp;
  for (const WorkloadFlow& plan : plans) {
    if (plan.destination != options_.host) continue;
    (plan.protocol == Protocol::kTcp ? tcp : udp).push_back(plan.index);
  }
  Result<std::unique_ptr<SegmentReceiver>> receiver = SegmentReceiver::Listen(
      loop_, address, tcp,
      [this](std::uint32_t flow, std::int64_t total) { HandleReceived(flow, total); });
  if (!receiver) return Propagate(receiver);
  tcp_receiver_ = std::move(*receiver);
  if (udp.empty()) return {};
  Result<std::unique_ptr<UdpReceiver>> datagrams = UdpReceiver::Listen(loop_, address, udp);
  if (!datagrams) return Propagate(datagrams);
  udp_receiver_ = std::move(*datagrams);
  return {};
}

void TrafficHost::AddFlow(const WorkloadFlow& plan, const IpAddress& source,
                          const IpAddress& destination) {
  // Far enough from the flows' indices that few workloads use a port twice.
  constexpr std::uint32_t kPathStride = kSourcePortCount / kMaxPaths;
  std::vector<std::uint16_t> ports;
  for (std::uint32_t path = 0; path < static_cast<std::uint32_t>(plan.paths); ++path) {
    ports.push_back(DrawPort(options_.seed, plan.index + path * kPathStride));
  }
  if (plan.port != 0) ports.front() = plan.port;
  outgoing_.push_back({plan, source, destination, std::move(ports)});
  if (plan.job_index >= 0) MemberOf(plan).flow = plan.index;
}

Result<void> TrafficHost::JoinPhasedJobs(const std::vector<WorkloadFlow>& plans) {
  for (std::size_t i = 0; i < workload_.phased_jobs.size(); ++i) {
    const auto index = static_cast<int>(i);
    std::vector<std::string> hosts = HostsOfJob(workload_.phased_jobs[i]);
    if (std::ranges::find(hosts, options_.host) == hosts.end()) continue;
    if (!barrier_) {
      Result<std::unique_ptr<PhaseBarrier>> barrier =
          PhaseBarrier::Open(loop_, options_.barrier, options_.host,
                             [this](int job, int) { phased_.at(job)->HandleReleased(); });
      if (!barrier) return Propagate(barrier);
      barrier_ = std::move(*barrier);
    }
    barrier_->AddJob(index, std::move(hosts));
    phased_[index] = MakePhasedPart(index, plans);
  }
  return {};
}

std::unique_ptr<PhasedPart> TrafficHost::MakePhasedPart(int job_index,
                                                        const std::vector<WorkloadFlow>& plans) {
  const PhasedJob& job = workload_.phased_jobs[static_cast<std::size_t>(job_index)];
  PhaseMember member(job.iterations, BurstsOfHost(job, job_index, options_.host, plans));
  return std::make_unique<PhasedPart>(
      loop_, PhaseSchedule(job, job_index, options_.seed), std::move(member),
      PhasedPart::Actions{
          .send = [this](std::uint32_t flow,
                         std::int64_t bytes) { tcp_senders_.at(flow)->Send(bytes); },
          .arrive = [this, job_index](int step) { barrier_->Arrive(job_index, step); },
          .on_over = [this] { CheckDone(); }});
}

TrafficHost::JobPart& TrafficHost::PartOf(const WorkloadFlow& plan) {
  JobPart& part = jobs_[plan.job_index];
  part.job_index = plan.job_index;
  part.job = &workload_.jobs[static_cast<std::size_t>(plan.job_index)];
  return part;
}

TrafficHost::Member& TrafficHost::MemberOf(const WorkloadFlow& plan) {
  JobPart& part = PartOf(plan);
  for (const std::unique_ptr<Member>& member : part.members) {
    if (member->ring_index == plan.ring_index) return *member;
  }
  const Ring& ring = part.job->rings[static_cast<std::size_t>(plan.ring_index)];
  return *part.members.emplace_back(std::make_unique<Member>(plan.ring_index, ring));
}

void TrafficHost::Start(std::function<void()> on_done) {
  on_done_ = std::move(on_done);
  for (const Outgoing& flow : outgoing_) {
    const std::chrono::duration<double> pause(flow.plan.start_seconds);
    if (pause.count() == 0) {
      Open(flow);
    } else {
      starts_.push_back(
          loop_.After(std::chrono::duration_cast<Duration>(pause), [this, &flow] { Open(flow); }));
    }
  }
  for (auto& [index, part] : jobs_) BeginCompute(part);
  for (auto& [index, part] : phased_) part->Start();
  Tick();
  loop_.Post([this] { CheckDone(); });
}

void TrafficHost::Open(const Outgoing& flow) {
  const WorkloadFlow& plan = flow.plan;
  SteeredFlow steered;
  if (steering_ && plan.announced)
    steered = steering_->Open(plan, flow.source, flow.destination, flow.ports.front());
  if (plan.protocol == Protocol::kUdp) {
    const UdpSender::Options options{.flow = plan.index,
                                     .source = flow.source,
                                     .destination = flow.destination,
                                     .own_port = flow.ports.front(),
                                     .bytes = plan.bytes,
                                     .rate = plan.rate};
    udp_senders_[plan.index] =
        std::make_unique<UdpSender>(loop_, options, std::move(steered), [this] { CheckDone(); });
    return udp_senders_[plan.index]->Start();
  }
  const bool of_phases = plan.phased_job_index >= 0;
  const SegmentSender::Options options{
      .flow = plan.index,
      .source = flow.source,
      .destination = flow.destination,
      .own_ports = flow.ports,
      .segment_bytes = SegmentBytes(workload_.segment_bytes, flow.ports.size()),
      .epoch_bytes = of_phases ? 0 : plan.announced_bytes,
      .announces_remaining = plan.announces_remaining,
      .stays_connected = of_phases};
  tcp_senders_[plan.index] = std::make_unique<SegmentSender>(
      loop_, options, std::move(steered),
      [this, plan](std::int64_t total) { HandleAcknowledged(plan, total); });
  tcp_senders_[plan.index]->Connect();
  if (plan.job_index < 0 && !of_phases) tcp_senders_[plan.index]->Send(plan.bytes);
}

void TrafficHost::HandleAcknowledged(const WorkloadFlow& plan, std::int64_t total) {
  if (plan.phased_job_index >= 0) {
    phased_.at(plan.phased_job_index)
        ->HandleAcknowledged(plan.index, total, tcp_senders_.at(plan.index)->Ports());
  } else if (plan.job_index >= 0) {
    Member& member = MemberOf(plan);
    member.state.HandleAcknowledged(total);
    Advance(PartOf(plan), member, 0);
  } else {
    CheckDone();
  }
}

void TrafficHost::HandleReceived(std::uint32_t flow, std::int64_t total) {
  const auto found = receivers_.find(flow);
  if (found == receivers_.end()) return;
  const auto& [part, member] = found->second;
  Advance(*part, *member, member->state.HandleReceived(total));
}

void TrafficHost::BeginCompute(JobPart& part) {
  const auto pause = std::chrono::duration<double>(part.job->compute_seconds);
  part.compute =
      loop_.After(std::chrono::duration_cast<Duration>(pause), [this, &part] { BeginEpoch(part); });
}

void TrafficHost::BeginEpoch(JobPart& part) {
  for (const std::unique_ptr<Member>& member : part.members) {
    member->epoch_start_ns = loop_.Now().time_since_epoch().count();
    member->is_reducing = true;
  }
  for (const std::unique_ptr<Member>& member : part.members) {
    Advance(part, *member, member->state.BeginEpoch());
  }
}

void TrafficHost::Advance(JobPart& part, Member& member, int chunks) {
  for (int i = 0; i < chunks; ++i) {
    tcp_senders_.at(member.flow)->Send(member.state.chunk_bytes());
  }
  if (!member.is_reducing || !member.state.IsEpochDone()) return;
  member.is_reducing = false;
  epochs_.push_back({part.job_index, member.ring_index, part.epoch, member.epoch_start_ns,
                     loop_.Now().time_since_epoch().count()});
  for (const std::unique_ptr<Member>& other : part.members) {
    if (other->is_reducing) return;
  }
  if (++part.epoch < part.job->epochs) {
    BeginCompute(part);
  } else {
    CheckDone();
  }
}

bool TrafficHost::IsDone(const WorkloadFlow& plan) const {
  if (plan.protocol == Protocol::kUdp) {
    const auto sender = udp_senders_.find(plan.index);
    return sender != udp_senders_.end() && sender->second->Report().done;
  }
  const auto sender = tcp_senders_.find(plan.index);
  return sender != tcp_senders_.end() && sender->second->Report().bytes >= plan.bytes;
}

void TrafficHost::CheckDone() {
  if (!on_done_) return;
  for (const Outgoing& flow : outgoing_) {
    if (!IsDone(flow.plan)) return;
  }
  for (const auto& [index, part] : jobs_) {
    if (part.epoch < part.job->epochs) return;
  }
  for (const auto& [index, part] : phased_) {
    if (!part->IsOver()) return;
  }
  std::exchange(on_done_, nullptr)();
}

void TrafficHost::Tick() {
  for (auto& [index, sender] : tcp_senders_) sender->HandleTick();
  tick_ = loop_.After(SegmentSender::kTick, [this] { Tick(); });
}

HostReport TrafficHost::Report() const {
  HostReport report;
  report.host = options_.host;
  report.has_agent = steering_ != nullptr;
  for (const auto& [index, sender] : tcp_senders_) report.sent.push_back(sender->Report());
  for (const auto& [index, sender] : udp_senders_) report.sent.push_back(sender->Report());
  report.received = tcp_receiver_->Report();
  if (udp_receiver_) {
    const std::vector<ReceivedFlow> datagrams = udp_receiver_->Report();
    report.received.insert(report.received.end(), datagrams.begin(), datagrams.end());
  }
  report.epochs = epochs_;
  for (const auto& [index, part] : phased_) {
    report.bursts.insert(report.bursts.end(), part->bursts().begin(), part->bursts().end());
  }
  return report;
}

}  // namespace espalier::traffic
