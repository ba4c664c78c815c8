#include "tests/studies/packets/packet_network.h"

#include <fmt/format.h>
#include <ns3/boolean.h>
#include <ns3/config.h>
#include <ns3/data-rate.h>
#include <ns3/double.h>
#include <ns3/inet-socket-address.h>
#include <ns3/internet-stack-helper.h>
#include <ns3/ipv4-l3-protocol.h>
#include <ns3/node.h>
#include <ns3/nstime.h>
#include <ns3/point-to-point-helper.h>
#include <ns3/point-to-point-net-device.h>
#include <ns3/queue-disc.h>
#include <ns3/queue-size.h>
#include <ns3/red-queue-disc.h>
#include <ns3/simulator.h>
#include <ns3/string.h>
#include <ns3/tcp-cubic.h>
#include <ns3/tcp-dctcp.h>
#include <ns3/tcp-l4-protocol.h>
#include <ns3/tcp-socket-factory.h>
#include <ns3/traffic-control-helper.h>
#include <ns3/uinteger.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "common/base/check.h"
#include "tests/studies/packets/path_routing.h"

namespace espalier::offline {
namespace {

using fabric::DirectedLink;
using fabric::LinkId;
using fabric::NodeId;
using fabric::Topology;
using ns3::BooleanValue;
using ns3::DoubleValue;
using ns3::InetSocketAddress;
using ns3::Ipv4Address;
using ns3::NanoSeconds;
using ns3::Packet;
using ns3::Ptr;
using ns3::QueueDisc;
using ns3::Simulator;
using ns3::Socket;
using ns3::StringValue;
using ns3::TimeValue;
using ns3::UintegerValue;

constexpr std::int64_t kHeaderBytes = 42;  // of PPP, IPv4 and TCP without options
constexpr std::uint16_t kPort = 4791;
// Addresses 10.x.x.x are those of senders, 11.x.x.x those of receivers.
constexpr std::uint32_t kSenders = 0x0A00'0000;
constexpr std::uint32_t kReceivers = 0x0B00'0000;
constexpr std::size_t kMostMessages = 1U << 24U;

Ipv4Address SenderOf(std::size_t message) {
  return Ipv4Address(kSenders | static_cast<std::uint32_t>(message));
}
Ipv4Address ReceiverOf(std::size_t message) {
  return Ipv4Address(kReceivers | static_cast<std::uint32_t>(message));
}

void KeepLongest(std::int64_t* longest, std::uint32_t /*before*/, std::uint32_t bytes) {
  *longest = std::max<std::int64_t>(*longest, bytes);
}

void AddBytes(std::int64_t* sum, Ptr<const Packet> packet) { *sum += packet->GetSize(); }

// One simulation. ns-3's state is global: Simulator::Destroy gives it back.
class PacketNetwork {
 public:
  PacketNetwork(const Topology& topology, std::span<const PacketMessage> messages,
                const PacketOptions& options)
      : topology_(topology), messages_(messages), options_(options) {
    outcome_.starts.assign(messages.size(), 0);
    outcome_.seconds.assign(messages.size(), -1);
    outcome_.link_bytes.assign(2 * topology.links().size(), 0);
    arrived_.assign(messages.size(), 0);
    waiting_.assign(messages.size(), 0);
    awaited_.assign(messages.size(), 0);
    followers_.resize(messages.size());
  }
  ~PacketNetwork() { Simulator::Destroy(); }
  PacketNetwork(const PacketNetwork&) = delete;
  PacketNetwork& operator=(const PacketNetwork&) = delete;

  Result<PacketOutcome> Run() {
    if (auto checked = CheckSize(); !checked) return Propagate(checked);
    SetDefaults();
    for (const PacketMessage& message : messages_) {
      for (const std::uint32_t index : message.links) AddLink(DirectedLink::FromIndex(index).link);
    }
    for (std::size_t i = 0; i < messages_.size(); ++i) AddMessage(i);
    SetWindows();
    unfinished_ = messages_.size();
    Simulator::Schedule(NanoSeconds(0), &PacketNetwork::CheckCancelled, this);
    Simulator::Stop(NanoSeconds(LongestTime()));
    if (unfinished_ > 0) Simulator::Run();
    return Finish();
  }

 private:
  struct End {
    Ptr<ns3::Node> node;
    Ptr<ns3::Ipv4> ipv4;
    Ptr<PathRouting> routing;
    bool listens = false;
  };

  std::int64_t RateOf(std::uint32_t index) const {
    return topology_.link(DirectedLink::FromIndex(index).link).rate.value;
  }

  Result<void> CheckSize() const {
    std::int64_t hops = 0;
    for (const PacketMessage& message : messages_) {
      const std::int64_t packets = message.bytes / options_.segment_bytes + 1;
      const auto links = static_cast<std::int64_t>(message.links.size());
      hops += std::min(packets, kMostPacketHops) * links;
      if (hops > kMostPacketHops || messages_.size() > kMostMessages) {
        return Fail(ErrorCode::kResourceExhausted,
                    fmt::format("the messages need more than {} packets on links, which would take "
                                "more than an hour (send fewer bytes or fewer messages)",
                                kMostPacketHops));
      }
    }
    return {};
  }

  // A round trip of a message's packets when no queue delays them.
  std::int64_t RoundTripNs(const PacketMessage& message) const {
    std::int64_t ns = 0;
    for (const std::uint32_t index : message.links) {
      ns += 2 * options_.link_delay_ns +
            8 * (options_.segment_bytes + 2 * kHeaderBytes) * 1'000'000'000 / RateOf(index);
    }
    return ns;
  }

  void SetDefaults() const {
    using ns3::Config::SetDefault;
    const bool marks = options_.transport == Transport::kDctcp;
    SetDefault("ns3::TcpL4Protocol::SocketType",
               ns3::TypeIdValue(marks ? ns3::TcpDctcp::GetTypeId() : ns3::TcpCubic::GetTypeId()));
    SetDefault("ns3::TcpSocket::SegmentSize",
               UintegerValue(static_cast<std::uint64_t>(options_.segment_bytes)));
    SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1U << 22U));
    SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1U << 22U));
    SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(ns3::MicroSeconds(20)));
    // From 1, the first mark would halve the rate, and TCP needs tens of round trips to return to
    // it.
    SetDefault("ns3::TcpDctcp::DctcpAlphaOnInit", DoubleValue(0));
    SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(ns3::MilliSeconds(1)));
    SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(ns3::MicroSeconds(10)));
    SetDefault("ns3::RttEstimator::InitialEstimation", TimeValue(ns3::MilliSeconds(1)));
  }

  End& EndOf(NodeId id) {
    End& end = ends_[id.Index()];
    if (end.node != nullptr) return end;
    end.node = ns3::CreateObject<ns3::Node>();
    ns3::InternetStackHelper internet;
    internet.SetIpv6StackInstall(false);
    internet.Install(end.node);
    end.ipv4 = end.node->GetObject<ns3::Ipv4>();
    end.routing = ns3::CreateObject<PathRouting>();
    end.ipv4->SetRoutingProtocol(end.routing);
    return end;
  }

  void AddLink(LinkId id) {
    if (devices_.contains(2 * id.Index())) return;
    const fabric::Link& link = topology_.link(id);
    const auto rate = static_cast<std::uint64_t>(link.rate.value);
    ns3::PointToPointHelper helper;
    helper.SetDeviceAttribute("DataRate", ns3::DataRateValue(ns3::DataRate(rate)));
    helper.SetDeviceAttribute(
        "Mtu", UintegerValue(static_cast<std::uint64_t>(options_.segment_bytes + 100)));
    helper.SetChannelAttribute("Delay", TimeValue(NanoSeconds(options_.link_delay_ns)));
    helper.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("2p"));
    const ns3::NetDeviceContainer pair = helper.Install(EndOf(link.a).node, EndOf(link.b).node);
    const DirectedLink directions[] = {{.link = id, .forward = true},
                                       {.link = id, .forward = false}};
    for (const DirectedLink direction : directions) {
      const Ptr<ns3::NetDevice> device = pair.Get(direction.forward ? 0 : 1);
      devices_[direction.Index()] = device;
      AddQueue(direction, device, rate);
      const Ptr<ns3::Ipv4> ipv4 = EndOf(topology_.From(direction)).ipv4;
      const std::uint32_t interface = ipv4->AddInterface(device);
      ipv4->SetForwarding(interface, true);
      ipv4->SetUp(interface);
      device->TraceConnectWithoutContext(
          "PhyTxEnd", ns3::MakeBoundCallback(&AddBytes, &outcome_.link_bytes[direction.Index()]));
    }
  }

  // Before the links of switches, one queue for all. Marks begin at a bandwidth-delay product of
  // eight links' delays.
  void AddQueue(DirectedLink direction, const Ptr<ns3::NetDevice>& device, std::uint64_t rate) {
    const bool is_switch =
        topology_.node(topology_.From(direction)).kind == fabric::NodeKind::kSwitch;
    const std::int64_t product_ns = 8 * options_.link_delay_ns;
    const ns3::QueueSizeValue most(ns3::QueueSize(fmt::format("{}B", options_.queue_bytes)));
    ns3::TrafficControlHelper helper;
    if (!is_switch) {
      // NICs serve their connections in turn, and acknowledgements do not wait behind data.
      const bool marks = options_.transport == Transport::kDctcp;
      helper.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "UseEcn", BooleanValue(marks), "CeThreshold",
                              TimeValue(marks ? NanoSeconds(product_ns) : ns3::Seconds(1)),
                              "Interval", StringValue("1s"), "Target", StringValue("1s"),
                              "EnableSetAssociativeHash", BooleanValue(true));
    } else if (options_.transport == Transport::kDctcp) {
      const double threshold =
          std::max(4.0 * static_cast<double>(options_.segment_bytes),
                   static_cast<double>(rate) / 8e9 * static_cast<double>(product_ns));
      helper.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", most, "UseEcn", BooleanValue(true),
                              "UseHardDrop", BooleanValue(false), "QW", DoubleValue(1), "MinTh",
                              DoubleValue(threshold), "MaxTh", DoubleValue(threshold),
                              "MeanPktSize",
                              UintegerValue(static_cast<std::uint64_t>(options_.segment_bytes)),
                              "LinkBandwidth", ns3::DataRateValue(ns3::DataRate(rate)), "LinkDelay",
                              TimeValue(NanoSeconds(options_.link_delay_ns)));
    } else {
      helper.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", most);
    }
    const Ptr<QueueDisc> queue = helper.Install(device).Get(0);
    queues_.push_back(queue);
    if (!is_switch) return;
    // The same random numbers in each simulation of a process.
    if (const auto red = ns3::DynamicCast<ns3::RedQueueDisc>(queue)) {
      red->AssignStreams(static_cast<std::int64_t>(direction.Index()));
    }
    queue->TraceConnectWithoutContext(
        "BytesInQueue", ns3::MakeBoundCallback(&KeepLongest, &outcome_.longest_queue_bytes));
  }

  void AddMessage(std::size_t i) {
    const PacketMessage& message = messages_[i];
    for (const std::uint32_t index : message.links) {
      const DirectedLink there = DirectedLink::FromIndex(index);
      const DirectedLink back{.link = there.link, .forward = !there.forward};
      EndOf(topology_.From(there))
          .routing->AddHop(SenderOf(i), ReceiverOf(i), devices_[there.Index()]);
      EndOf(topology_.From(back))
          .routing->AddHop(ReceiverOf(i), SenderOf(i), devices_[back.Index()]);
    }
    End& source = EndOf(topology_.From(DirectedLink::FromIndex(message.links.front())));
    End& destination = EndOf(topology_.To(DirectedLink::FromIndex(message.links.back())));
    source.routing->AddOwn(SenderOf(i));
    destination.routing->AddOwn(ReceiverOf(i));
    Listen(destination);
    waiting_[i] = message.bytes;
    const Ptr<Socket> socket =
        Socket::CreateSocket(source.node, ns3::TcpSocketFactory::GetTypeId());
    sockets_.push_back(socket);
    socket->SetConnectCallback(ns3::MakeCallback(&PacketNetwork::HandleConnected, this),
                               ns3::MakeNullCallback<void, Ptr<Socket>>());
    socket->SetSendCallback(ns3::MakeCallback(&PacketNetwork::HandleRoom, this));
    numbers_[PeekPointer(socket)] = i;
    awaited_[i] = message.after.size();
    for (const std::size_t earlier : message.after) {
      ESPALIER_CHECK(earlier < i, "{} {}", earlier, i);
      followers_[earlier].push_back(i);
    }
    if (message.after.empty()) ScheduleStart(i);
  }

  // At its time, or now if that is later.
  void ScheduleStart(std::size_t i) {
    const std::int64_t wait = messages_[i].start_ns - Simulator::Now().GetNanoSeconds();
    Simulator::Schedule(NanoSeconds(std::max<std::int64_t>(wait, 0)), &PacketNetwork::Start, this,
                        i);
  }

  void Listen(End& end) {
    if (std::exchange(end.listens, true)) return;
    const Ptr<Socket> listener = Socket::CreateSocket(end.node, ns3::TcpSocketFactory::GetTypeId());
    listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
    listener->Listen();
    listener->SetAcceptCallback(ns3::MakeNullCallback<bool, Ptr<Socket>, const ns3::Address&>(),
                                ns3::MakeCallback(&PacketNetwork::HandleAccepted, this));
    listeners_.push_back(listener);
  }

  // Gives each connection its part of a bandwidth-delay product, by its bytes among all that start
  // at the same NIC at the same time; at least one packet.
  void SetWindows() {
    std::map<std::pair<std::int64_t, std::uint32_t>, std::int64_t> together;
    const auto key = [](const PacketMessage& message) {
      return std::pair(message.start_ns, message.links.front());
    };
    for (const PacketMessage& message : messages_) together[key(message)] += message.bytes;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const PacketMessage& message = messages_[i];
      const double product = static_cast<double>(RateOf(message.links.front())) / 8e9 *
                             static_cast<double>(RoundTripNs(message));
      const double part = static_cast<double>(message.bytes) /
                          static_cast<double>(together[key(message)]) * product /
                          static_cast<double>(options_.segment_bytes);
      sockets_[i]->SetAttribute("InitialCwnd", UintegerValue(std::max<std::uint64_t>(
                                                   1, static_cast<std::uint64_t>(part))));
    }
  }

  void Start(std::size_t i) {
    outcome_.starts[i] = Simulator::Now().GetSeconds();
    sockets_[i]->Bind();
    sockets_[i]->Connect(InetSocketAddress(ReceiverOf(i), kPort));
  }
  void HandleConnected(Ptr<Socket> socket) { Fill(socket); }
  void HandleRoom(Ptr<Socket> socket, std::uint32_t /*room*/) { Fill(socket); }

  // Hands the connection what it has room for, in packets.
  void Fill(const Ptr<Socket>& socket) {
    std::int64_t& waiting = waiting_[numbers_.at(PeekPointer(socket))];
    while (waiting > 0) {
      const std::int64_t bytes = std::min(waiting, options_.segment_bytes);
      if (socket->GetTxAvailable() < bytes) return;
      socket->Send(ns3::Create<Packet>(static_cast<std::uint32_t>(bytes)), 0);
      waiting -= bytes;
    }
  }

  void HandleAccepted(Ptr<Socket> socket, const ns3::Address& from) {
    const std::uint32_t sender = InetSocketAddress::ConvertFrom(from).GetIpv4().Get();
    numbers_[PeekPointer(socket)] = sender & ~kSenders;
    receivers_.push_back(socket);
    socket->SetRecvCallback(ns3::MakeCallback(&PacketNetwork::HandleArrival, this));
  }

  void HandleArrival(Ptr<Socket> socket) {
    const std::size_t i = numbers_.at(PeekPointer(socket));
    while (const Ptr<Packet> packet = socket->Recv()) {
      if (packet->GetSize() == 0) break;
      arrived_[i] += packet->GetSize();
    }
    if (arrived_[i] < messages_[i].bytes || outcome_.seconds[i] >= 0) return;
    outcome_.seconds[i] = Simulator::Now().GetSeconds() - outcome_.starts[i];
    for (const std::size_t follower : followers_[i]) {
      if (--awaited_[follower] == 0) ScheduleStart(follower);
    }
    if (--unfinished_ == 0) Simulator::Stop();
  }

  void CheckCancelled() {
    is_cancelled_ = options_.is_cancelled();
    if (is_cancelled_) Simulator::Stop();
    Simulator::Schedule(ns3::MicroSeconds(20), &PacketNetwork::CheckCancelled, this);
  }

  // A hundred times what the busiest link needs, after the last start.
  std::int64_t LongestTime() const {
    std::vector<double> ns(outcome_.link_bytes.size());
    double busiest = 1e6;
    std::int64_t last_start = 0;
    for (const PacketMessage& message : messages_) {
      last_start = std::max(last_start, message.start_ns);
      for (const std::uint32_t index : message.links) {
        ns[index] += static_cast<double>(message.bytes) * 8e9 / static_cast<double>(RateOf(index));
        busiest = std::max(busiest, ns[index]);
      }
    }
    return last_start + static_cast<std::int64_t>(100 * busiest);
  }

  Result<PacketOutcome> Finish() {
    if (is_cancelled_) return Fail(ErrorCode::kUnavailable, "the simulation was interrupted");
    if (unfinished_ > 0) {
      return Fail(
          ErrorCode::kFailedPrecondition,
          fmt::format("{} of {} messages have not arrived after {:.3g} simulated seconds, a "
                      "hundred times what the busiest link needs",
                      unfinished_, messages_.size(), Simulator::Now().GetSeconds()));
    }
    for (const Ptr<QueueDisc>& queue : queues_) {
      const QueueDisc::Stats& stats = queue->GetStats();
      outcome_.marked_packets += stats.nTotalMarkedPackets;
      outcome_.dropped_packets += stats.nTotalDroppedPackets;
    }
    outcome_.events = Simulator::GetEventCount();
    return std::move(outcome_);
  }

  const Topology& topology_;
  std::span<const PacketMessage> messages_;
  const PacketOptions& options_;
  PacketOutcome outcome_;
  std::unordered_map<std::size_t, End> ends_;                     // by NodeId
  std::unordered_map<std::size_t, Ptr<ns3::NetDevice>> devices_;  // by DirectedLink::Index
  std::vector<Ptr<QueueDisc>> queues_;
  std::vector<Ptr<Socket>> sockets_;  // of the senders, by message
  std::vector<Ptr<Socket>> listeners_;
  std::vector<Ptr<Socket>> receivers_;
  std::unordered_map<const Socket*, std::size_t> numbers_;  // of the messages
  std::vector<std::int64_t> waiting_;                       // bytes that are not yet handed over
  std::vector<std::size_t> awaited_;                        // messages that have not arrived
  std::vector<std::vector<std::size_t>> followers_;         // those that await a message
  std::vector<std::int64_t> arrived_;                       // bytes
  std::size_t unfinished_ = 0;
  bool is_cancelled_ = false;
};

}  // namespace

Result<PacketOutcome> SendPackets(const Topology& topology, std::span<const PacketMessage> messages,
                                  const PacketOptions& options) {
  return PacketNetwork(topology, messages, options).Run();
}

}  // namespace espalier::offline
