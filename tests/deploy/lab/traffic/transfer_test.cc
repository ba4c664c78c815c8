// Senders and receivers over the loopback interface, steered by a fake agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "deploy/lab/traffic/endpoint.h"
#include "deploy/lab/traffic/segment_format.h"
#include "deploy/lab/traffic/segment_receiver.h"
#include "deploy/lab/traffic/segment_sender.h"
#include "deploy/lab/traffic/udp_receiver.h"
#include "deploy/lab/traffic/udp_sender.h"
#include "tests/deploy/lab/traffic/fake_agent.h"

namespace espalier::traffic {
namespace {

constexpr std::uint16_t kOwnPort = 49'200;
constexpr std::uint16_t kOtherPort = 49'201;

// Every test uses its own loopback addresses, so that tests can run in parallel.
IpAddress Loopback(int host) {
  const auto process = static_cast<std::uint32_t>(::getpid()) & 0xFFFF;
  return IpAddress::FromV4(0x7F000000U | process << 8 | static_cast<std::uint32_t>(host));
}

class Transfer : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/espalier-traffic-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ::setenv("ESPALIER_AGENT_SOCKET", Socket().c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Socket() const { return folder_ + "/agent.sock"; }

  std::unique_ptr<AgentConnection> ConnectToAgent() {
    Result<std::unique_ptr<AgentConnection>> steering = AgentConnection::Connect(loop_, [this] {
      for (SegmentSender* sender : senders_) sender->HandleNews();
    });
    EXPECT_TRUE(steering.has_value()) << steering.error().message;
    return std::move(*steering);
  }

  std::unique_ptr<SegmentReceiver> Receive() {
    Result<std::unique_ptr<SegmentReceiver>> receiver =
        SegmentReceiver::Listen(loop_, destination_, {0, 1}, [](std::uint32_t, std::int64_t) {});
    EXPECT_TRUE(receiver.has_value()) << receiver.error().message;
    return std::move(*receiver);
  }

  SegmentSender::Options SenderOptions(std::uint32_t flow = 0) const {
    return {.flow = flow,
            .source = source_,
            .destination = destination_,
            .own_ports = {kOwnPort},
            .segment_bytes = 100'000,
            .epoch_bytes = 1'000'000};
  }

  WorkloadFlow Plan(Protocol protocol = Protocol::kTcp) const {
    return {.id = "f", .protocol = protocol, .bytes = 1'000'000, .announced_bytes = 1'000'000};
  }

  void Tick() {
    for (SegmentSender* sender : senders_) sender->HandleTick();
    tick_ = loop_.After(SegmentSender::kTick, [this] { Tick(); });
  }

  // Runs the loop until Stop; fails after half a minute.
  void Run() {
    bool late = false;
    const TimerPtr limit = loop_.After(std::chrono::seconds(30), [&] {
      late = true;
      loop_.Stop();
    });
    loop_.Run();
    EXPECT_FALSE(late);
  }

  IpAddress source_ = Loopback(1);
  IpAddress destination_ = Loopback(2);
  std::string folder_;
  io::AsioEventLoop loop_;
  std::vector<SegmentSender*> senders_;
  TimerPtr tick_;
};

TEST_F(Transfer, DeliversEverySegmentOnceOverItsOwnPort) {
  const auto receiver = Receive();
  SegmentSender sender(loop_, SenderOptions(), SteeredFlow(), [&](std::int64_t total) {
    if (total == 1'050'000) loop_.Stop();
  });
  sender.Send(1'050'000);
  Run();
  sender.Finish();
  const SentFlow sent = sender.Report();
  EXPECT_TRUE(sent.done);
  EXPECT_EQ(sent.segments, 11);
  ASSERT_EQ(sent.ports.size(), 1U);
  EXPECT_EQ(sent.ports[0].port, kOwnPort);
  EXPECT_FALSE(sent.ports[0].steered);
  EXPECT_EQ(sent.ports[0].bytes, 1'050'000);
  const ReceivedFlow received = receiver->Report().at(0);
  EXPECT_EQ(received.bytes, 1'050'000);
  EXPECT_EQ(received.segments, 11);
  EXPECT_EQ(received.duplicates, 0);
}

// The agent gives a new port whenever the flow is seen on the previous one. Every second time it
// says that the path is dead, so that segments are aborted in flight.
TEST_F(Transfer, LosesAndDoublesNothingWhileThePortChanges) {
  constexpr int kChanges = 40;
  std::atomic<int> changes = 0;
  FakeAgent agent(Socket(), [&](const agent::FlowSample& flow) -> std::optional<wire::PathSet> {
    if (changes > 0 && flow.source_port != kOwnPort + changes) return std::nullopt;
    const int next = ++changes;
    return OnePath(flow, static_cast<std::uint16_t>(kOwnPort + next),
                   next % 2 == 0 ? wire::PathReason::kPathDead : wire::PathReason::kAssigned);
  });
  const auto steering = ConnectToAgent();
  const auto receiver = Receive();
  std::int64_t given = 3'000'000;
  SegmentSender sender(loop_, SenderOptions(),
                       steering->Open(Plan(), source_, destination_, kOwnPort),
                       [&](std::int64_t total) {
                         if (total < given) return;
                         if (changes >= kChanges) return loop_.Stop();
                         given += 1'000'000;
                         sender.Send(1'000'000);
                       });
  senders_ = {&sender};
  sender.Send(given);
  Tick();
  Run();
  sender.Finish();
  const SentFlow sent = sender.Report();
  EXPECT_EQ(sent.bytes, given);
  EXPECT_GT(sent.ports.size(), 2U);
  std::int64_t by_port = 0;
  for (const PortUse& use : sent.ports) by_port += use.bytes;
  EXPECT_EQ(by_port, given);
  const ReceivedFlow received = receiver->Report().at(0);
  EXPECT_EQ(received.bytes, given);
  EXPECT_EQ(received.segments, sent.segments);
  EXPECT_LE(received.duplicates, sent.abandoned);
}

// An agent that never decides holds nothing up for longer than the sender is patient.
TEST_F(Transfer, BeginsOnThePortsOfAnAgentThatDecidesInTime) {
  for (const bool decides : {true, false}) {
    int looks = 0;
    FakeAgent agent(Socket(), [&](const agent::FlowSample& flow) -> std::optional<wire::PathSet> {
      if (!decides || ++looks != 5) return std::nullopt;
      return OnePath(flow, kOtherPort, wire::PathReason::kAssigned);
    });
    const auto steering = ConnectToAgent();
    const auto receiver = Receive();
    SegmentSender::Options options = SenderOptions();
    options.first_ports_patience = std::chrono::milliseconds(decides ? 20'000 : 30);
    SegmentSender sender(loop_, options, steering->Open(Plan(), source_, destination_, kOwnPort),
                         [&](std::int64_t total) {
                           if (total == 1'000'000) loop_.Stop();
                         });
    senders_ = {&sender};
    sender.Send(1'000'000);
    Tick();
    Run();
    sender.Finish();
    ASSERT_EQ(sender.Report().ports.size(), 1U);
    EXPECT_EQ(sender.Report().ports[0].port, decides ? kOtherPort : kOwnPort);
    EXPECT_EQ(sender.Report().ports[0].steered, decides);
    senders_.clear();
  }
}

TEST_F(Transfer, SharesAFlowOverAsManyConnectionsAsItHasPaths) {
  constexpr std::int64_t kBytes = 20'000'000;
  FakeAgent agent(Socket(), [&](const agent::FlowSample& flow) -> std::optional<wire::PathSet> {
    EXPECT_EQ(flow.max_paths, 2);
    if (flow.sent_bytes < 1'000'000 || flow.source_port >= kOtherPort + 10) return std::nullopt;
    wire::PathSet set = OnePath(flow, kOtherPort + 10, wire::PathReason::kAssigned);
    set.paths.push_back(set.paths[0]);
    set.paths[1].source_port = kOtherPort + 11;
    return set;
  });
  const auto steering = ConnectToAgent();
  const auto receiver = Receive();
  SegmentSender::Options options = SenderOptions();
  options.own_ports = {kOwnPort, kOtherPort};
  WorkloadFlow plan = Plan();
  plan.paths = 2;
  std::int64_t given = kBytes;
  SegmentSender sender(loop_, options, steering->Open(plan, source_, destination_, kOwnPort),
                       [&](std::int64_t total) {
                         if (total < given) return;
                         if (sender.Report().ports.size() >= 4) return loop_.Stop();
                         given += 1'000'000;
                         sender.Send(1'000'000);
                       });
  senders_ = {&sender};
  sender.Send(given);
  Tick();
  Run();
  sender.Finish();
  std::map<std::uint16_t, bool> steered;
  for (const PortUse& use : sender.Report().ports) {
    EXPECT_GT(use.bytes, 0);
    steered[use.port] = use.steered;
  }
  EXPECT_EQ(steered, (std::map<std::uint16_t, bool>{{kOwnPort, false},
                                                    {kOtherPort, false},
                                                    {kOtherPort + 10, true},
                                                    {kOtherPort + 11, true}}));
  const ReceivedFlow received = receiver->Report().at(0);
  EXPECT_EQ(received.bytes, given);
  EXPECT_EQ(received.duplicates, 0);
}

// A listener that accepts and never reads, which looks like a dead path to the sender.
class Silence {
 public:
  explicit Silence(const IpAddress& address)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    const Endpoint endpoint(address, kTrafficPort);
    const int on = 1;
    ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    EXPECT_EQ(::bind(listener_.get(), endpoint.data(), endpoint.size()), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
  }
  int listener() const { return listener_.get(); }
  // Accepts one connection, which stays open, and stops listening.
  void Accept() {
    connection_ = UniqueFd(::accept(listener_.get(), nullptr, nullptr));
    EXPECT_TRUE(connection_);
    listener_.Close();
  }

 private:
  UniqueFd listener_;
  UniqueFd connection_;
};

class StuckTransfer : public Transfer, public testing::WithParamInterface<wire::PathReason> {};

// At once with PATH_DEAD; with another reason after a time without progress of the segment.
TEST_P(StuckTransfer, SendsTheSegmentAgainOverTheNewPort) {
  std::atomic<bool> move = false;
  FakeAgent agent(Socket(), [&](const agent::FlowSample& flow) -> std::optional<wire::PathSet> {
    if (!move || flow.source_port == kOtherPort) return std::nullopt;
    return OnePath(flow, kOtherPort, GetParam());
  });
  const auto steering = ConnectToAgent();
  Silence silence(destination_);
  std::unique_ptr<SegmentReceiver> receiver;
  TimerPtr accepting = loop_.WatchReadable(silence.listener(), [&] {
    accepting.reset();
    silence.Accept();
    receiver = Receive();
    move = true;
  });
  SegmentSender sender(loop_, SenderOptions(),
                       steering->Open(Plan(), source_, destination_, kOwnPort),
                       [&](std::int64_t total) {
                         if (total == 300'000) loop_.Stop();
                       });
  senders_ = {&sender};
  sender.Send(300'000);
  Tick();
  Run();
  sender.Finish();
  const SentFlow sent = sender.Report();
  EXPECT_LE(sent.abandoned, 3);  // the number in flight
  ASSERT_EQ(sent.ports.size(), 1U);
  EXPECT_EQ(sent.ports[0].port, kOtherPort);
  EXPECT_TRUE(sent.ports[0].steered);
  const ReceivedFlow received = receiver->Report().at(0);
  EXPECT_EQ(received.bytes, 300'000);
  EXPECT_EQ(received.segments, 3);
  EXPECT_EQ(received.duplicates, 0);
}

INSTANTIATE_TEST_SUITE_P(Reasons, StuckTransfer,
                         testing::Values(wire::PathReason::kPathDead, wire::PathReason::kAssigned));

TEST_F(Transfer, StaysOnItsPortWhereAnotherFlowOfThePairHasTheNewOne) {
  FakeAgent agent(Socket(), [&](const agent::FlowSample& flow) -> std::optional<wire::PathSet> {
    return OnePath(flow, kOtherPort, wire::PathReason::kAssigned);
  });
  const auto steering = ConnectToAgent();
  const auto receiver = Receive();
  SegmentSender::Options first_options = SenderOptions(0);
  first_options.own_ports = {kOtherPort};
  std::int64_t first_given = 100'000;
  SegmentSender first(loop_, first_options, SteeredFlow(), [&](std::int64_t) {});
  first.Send(first_given);
  SegmentSender second(loop_, SenderOptions(1),
                       steering->Open(Plan(), source_, destination_, kOwnPort),
                       [&](std::int64_t total) {
                         if (second.Report().port_conflicts > 0) {
                           if (total % 1'000'000 == 0) loop_.Stop();
                         } else if (total % 1'000'000 == 0) {
                           second.Send(1'000'000);
                         }
                       });
  // The first is connected, and stays connected, when the second begins.
  SegmentSender* const begun = &second;
  TimerPtr poll;
  const std::function<void()> begin_second = [&] {
    if (first.Report().bytes == first_given) return begun->Send(1'000'000);
    poll = loop_.After(std::chrono::milliseconds(1), begin_second);
  };
  begin_second();
  Run();
  first.Finish();
  second.Finish();
  EXPECT_GT(second.Report().port_conflicts, 0);
  EXPECT_EQ(second.Report().ports.front().port, kOwnPort);
  EXPECT_EQ(receiver->Report().at(1).bytes, second.Report().bytes);
}

// A client that composes the format by hand.
class RawClient {
 public:
  RawClient(const IpAddress& to, std::uint32_t magic, std::uint32_t flow)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const Endpoint endpoint(to, kTrafficPort);
    EXPECT_EQ(::connect(socket_.get(), endpoint.data(), endpoint.size()), 0);
    const ConnectionHeader header{magic, flow};
    Write(&header, sizeof header);
  }
  void Segment(std::uint64_t sequence, std::uint64_t length, std::size_t payload) {
    const SegmentHeader header{sequence, length};
    Write(&header, sizeof header);
    const std::string bytes(payload, 'x');
    Write(bytes.data(), bytes.size());
  }
  int fd() const { return socket_.get(); }
  // The next acknowledgement; none if the connection has ended.
  std::optional<std::uint64_t> Ack() {
    std::uint64_t sequence = 0;
    if (::recv(socket_.get(), &sequence, sizeof sequence, MSG_WAITALL) != sizeof sequence) {
      return std::nullopt;
    }
    return sequence;
  }

 private:
  void Write(const void* data, std::size_t size) {
    EXPECT_EQ(::send(socket_.get(), data, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  UniqueFd socket_;
};

TEST_F(Transfer, ReceiverCountsASegmentOnceAndAcknowledgesItAgain) {
  const auto receiver = Receive();
  std::thread client([&] {
    RawClient one(destination_, kMagic, 1);
    one.Segment(0, 500, 500);
    EXPECT_EQ(one.Ack(), 0U);
    one.Segment(1, 800, 300);  // aborted in flight
    RawClient two(destination_, kMagic, 1);
    two.Segment(0, 500, 500);  // sent again
    EXPECT_EQ(two.Ack(), 0U);
    two.Segment(1, 800, 800);
    EXPECT_EQ(two.Ack(), 1U);
    two.Segment(3, 10, 10);  // before the second
    EXPECT_EQ(two.Ack(), 3U);
    two.Segment(3, 10, 10);
    EXPECT_EQ(two.Ack(), 3U);
    two.Segment(2, 20, 20);
    EXPECT_EQ(two.Ack(), 2U);
    loop_.Stop();
  });
  Run();
  client.join();
  const ReceivedFlow received = receiver->Report().at(1);
  EXPECT_EQ(received.bytes, 1330);
  EXPECT_EQ(received.segments, 4);
  EXPECT_EQ(received.duplicates, 2);
}

TEST_F(Transfer, ReceiverClosesConnectionsThatMakeNoSense) {
  const auto receiver = Receive();
  std::thread client([&] {
    EXPECT_EQ(RawClient(destination_, 0x12345678, 1).Ack(), std::nullopt);
    EXPECT_EQ(RawClient(destination_, kMagic, 99).Ack(), std::nullopt);
    RawClient empty(destination_, kMagic, 1);
    empty.Segment(0, 0, 0);
    EXPECT_EQ(empty.Ack(), std::nullopt);
    loop_.Stop();
  });
  Run();
  client.join();
  EXPECT_EQ(receiver->Report().at(1).segments, 0);
}

TEST_F(Transfer, UdpChangesItsPortInFlight) {
  FakeAgent agent(Socket(), [&](const agent::FlowSample& flow) -> std::optional<wire::PathSet> {
    if (flow.sent_bytes < 200'000 || flow.source_port == kOtherPort) return std::nullopt;
    return OnePath(flow, kOtherPort, wire::PathReason::kAssigned);
  });
  const auto steering = ConnectToAgent();
  Result<std::unique_ptr<UdpReceiver>> receiver = UdpReceiver::Listen(loop_, destination_, {0});
  ASSERT_TRUE(receiver.has_value()) << receiver.error().message;
  const UdpSender::Options options{.flow = 0,
                                   .source = source_,
                                   .destination = destination_,
                                   .own_port = kOwnPort,
                                   .bytes = 2'000'000,
                                   .rate = BitsPerSecond{40'000'000}};
  UdpSender sender(loop_, options,
                   steering->Open(Plan(Protocol::kUdp), source_, destination_, kOwnPort),
                   [&] { loop_.Stop(); });
  sender.Start();
  Run();
  const SentFlow sent = sender.Report();
  sender.Finish();
  EXPECT_TRUE(sent.done);
  ASSERT_EQ(sent.ports.size(), 2U);
  EXPECT_EQ(sent.ports[0].port, kOwnPort);
  EXPECT_EQ(sent.ports[1].port, kOtherPort);
  EXPECT_TRUE(sent.ports[1].steered);
  const ReceivedFlow received = (*receiver)->Report().at(0);
  EXPECT_LE(received.segments, sent.segments);
  EXPECT_GT(received.segments, 0);
  EXPECT_EQ(received.duplicates, 0);
}

}  // namespace
}  // namespace espalier::traffic
