// Tests what cores report of flows, how they change packets, and that they need
// no lock.
#include "agent/dpdk/flows/packet_steering.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <unordered_map>

#include "tests/agent/dpdk/steered_path.h"

namespace espalier::dpdk {
namespace {

// Makes an acknowledgement from the other end to the queue pair 0x99, which sends the flow.
RoceFrame Acknowledgement(std::uint32_t psn, std::uint8_t syndrome = 0) {
  return {.source = "10.0.1.1",
          .destination = "10.0.0.1",
          .opcode = 0x11,
          .destination_qpn = 0x99,
          .psn = psn,
          .payload = Aeth(syndrome)};
}

TEST(PacketSteering, TellsOfAnElephantWithItsFirstPacket) {
  SteeredPath path;
  ExpectPort(path.Send(WriteFirst()), 50'000);
  const std::optional<FlowEvent> event = path.steering.events().Pop();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, FlowEvent::Kind::kNewFlow);
  EXPECT_EQ(event->flow_kind, FlowKind::kRequests);
  EXPECT_EQ(event->message_bytes, 8U << 20);
  EXPECT_EQ(event->own_port, 50'000);
  EXPECT_EQ(event->psn, 100U);
  EXPECT_EQ(event->key.source().ToString(), "10.0.0.1");
  EXPECT_EQ(event->key.destination().ToString(), "10.0.1.1");
  EXPECT_EQ(event->key.qpn(), 0x11U);
  // Mice, middle packets and management queue pairs are not reported.
  path.Send({.opcode = 0x0A, .payload = Reth(512, 512)});
  path.Send(WriteMiddle(7));
  path.Send({.opcode = 0x06, .destination_qpn = 1, .payload = Reth(1 << 20, 64)});
  path.Send({.opcode = 0x64, .payload = Bytes(64, 1)});
  EXPECT_FALSE(path.steering.events().Pop());
  // A SEND has no length.
  path.Send({.opcode = 0x00});
  EXPECT_EQ(path.steering.events().Pop()->message_bytes, 0U);
}

TEST(PacketSteering, GivesEveryPacketOfAFlowItsPort) {
  for (const char* family : {"10.0.", "fd00::"}) {
    SteeredPath path;
    RoceFrame frame = WriteFirst();
    frame.source = std::string(family) + (family[0] == '1' ? "0.1" : "1");
    frame.destination = std::string(family) + (family[0] == '1' ? "1.1" : "2");
    frame.vlan_types = {0x8100};
    path.Send(frame);
    path.Open(*path.steering.events().Pop(), 60'001);
    ExpectPort(path.Send(frame), 60'001);
    for (const int opcode : {0x07, 0x08, 0x0A, 0x0C, 0x11, 0x16, 0x1F}) {
      frame.opcode = static_cast<std::uint8_t>(opcode);
      ++frame.psn;
      ExpectPort(path.Send(frame), 60'001);
    }
    frame.destination_qpn = 0x12;  // another queue pair
    ExpectPort(path.Send(frame), 50'000);
  }
}

TEST(PacketSteering, LeavesOtherTrafficAsItIs) {
  SteeredPath path;
  path.Send(WriteFirst());
  path.Open(*path.steering.events().Pop(), 60'001);
  Bytes tcp = Build(WriteFirst()).bytes;
  tcp[14 + 9] = 6;
  Bytes fragment = Build(WriteFirst()).bytes;
  fragment[14 + 6] = 0x20;
  Bytes runt(17, 3);
  for (Bytes* bytes : {&tcp, &fragment, &runt}) {
    const Bytes before = *bytes;
    path.Out(*bytes);
    EXPECT_EQ(*bytes, before);
  }
  // An agent's probe keeps its port, whose path it checks.
  RoceFrame probe{.hop_limit = 3, .opcode = 0x04, .psn = 0, .payload = Bytes(12, 0)};
  ExpectPort(path.Send(probe), 50'000);
  probe.hop_limit = 64;
  ExpectPort(path.Send(probe), 60'001);
}

TEST(PacketSteering, KnowsTheSizeOfARead) {
  SteeredPath path;
  path.Receive({.source = "10.0.1.1",
                .destination = "10.0.0.1",
                .opcode = 0x0C,
                .destination_qpn = 0x77,
                .psn = 5000,
                .payload = Reth(3 << 20)});
  EXPECT_FALSE(path.steering.events().Pop());
  Bytes response = Aeth(0);
  response.resize(1028, 1);
  path.Send({.opcode = 0x0D, .psn = 5000, .payload = response});
  const std::optional<FlowEvent> event = path.steering.events().Pop();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->flow_kind, FlowKind::kResponses);
  EXPECT_EQ(event->message_bytes, 3U << 20);
  path.Send({.opcode = 0x0D, .psn = 5001, .payload = response});
  EXPECT_EQ(path.steering.events().Pop()->message_bytes, 0U) << "a request that nobody saw";
  // Responses advance the PSN; requests of the other direction on the same queue pair do not.
  const std::uint32_t slot = path.Open(*event, 60'000);
  path.Send({.opcode = 0x0E, .psn = 5000, .payload = Bytes(1024, 1)});
  path.Send(WriteMiddle(9));
  EXPECT_EQ(path.table.Read(slot).packets, 2U);
  EXPECT_EQ(path.table.Read(slot).bytes, 1024U);
  EXPECT_EQ(path.table.Read(slot).retries, 0U);
}

TEST(PacketSteering, CountsBytesOnceAndRetransmissions) {
  SteeredPath path;
  path.Send(WriteFirst(0xFFFFFE));
  const std::uint32_t slot = path.Open(*path.steering.events().Pop());
  for (const std::uint32_t psn : {0xFFFFFEU, 0xFFFFFFU, 0U, 1U, 0xFFFFFFU, 0U, 1U, 2U}) {
    path.Send(WriteMiddle(psn));
  }
  const FlowCounts counts = path.table.Read(slot);
  EXPECT_EQ(counts.packets, 8U);
  EXPECT_EQ(counts.bytes, 5U * 1024);
  EXPECT_EQ(counts.retries, 3U);
  EXPECT_EQ(counts.outstanding_bytes, 0U) << "unknown without acknowledgements";
}

TEST(PacketSteering, MeasuresWithTheAcknowledgementsOfAFlow) {
  SteeredPath path;
  path.Send(WriteFirst());
  const std::uint32_t slot = path.Open(*path.steering.events().Pop());
  path.Receive(Acknowledgement(100));
  EXPECT_FALSE(path.steering.events().Pop()) << "nobody asked";
  path.table.ReportUnmatchedAcks(true);
  path.Receive(Acknowledgement(100));
  const std::optional<FlowEvent> stranger = path.steering.events().Pop();
  ASSERT_TRUE(stranger);
  EXPECT_EQ(stranger->kind, FlowEvent::Kind::kAcknowledgement);
  EXPECT_EQ(stranger->key, path.table.key(slot).Reversed(0x99));
  EXPECT_FALSE(path.table.HasAcknowledgements(slot));
  path.table.Pair(slot, stranger->key);
  path.table.Publish();
  EXPECT_TRUE(path.table.HasAcknowledgements(slot));

  RoceFrame last = WriteMiddle(103);
  last.asks_for_acknowledgement = true;
  for (std::uint32_t psn = 100; psn < 103; ++psn) path.Send(WriteMiddle(psn));
  path.Send(last);
  EXPECT_EQ(path.table.Read(slot).outstanding_bytes, 4096U);
  path.now_us += 40;
  path.Receive(Acknowledgement(101));
  EXPECT_EQ(path.table.Read(slot).rtt_us, 0U);
  EXPECT_EQ(path.table.Read(slot).outstanding_bytes, 2048U);
  path.Receive(Acknowledgement(100));  // late
  EXPECT_EQ(path.table.Read(slot).outstanding_bytes, 2048U);
  path.Receive(Acknowledgement(103));
  EXPECT_EQ(path.table.Read(slot).rtt_us, 40U);
  EXPECT_EQ(path.table.Read(slot).outstanding_bytes, 0U);
  // A sequence NAK for 105 acknowledges 104. Retransmissions are not timed.
  for (std::uint32_t psn = 104; psn < 107; ++psn) {
    last.psn = psn;
    path.Send(last);
  }
  path.Receive(Acknowledgement(105, 0x60));
  EXPECT_EQ(path.table.Read(slot).outstanding_bytes, 2048U);
  last.psn = 105;
  path.Send(last);
  path.now_us += 5000;
  path.Receive(Acknowledgement(106));
  EXPECT_LT(path.table.Read(slot).rtt_us, 50U);
  EXPECT_FALSE(path.steering.events().Pop());
}

TEST(PacketSteering, TellsWhenAnotherQueuePairHasTheNumber) {
  SteeredPath path;
  path.Send(WriteFirst());
  const std::uint32_t slot = path.Open(*path.steering.events().Pop(), 60'001);
  ExpectPort(path.Send(WriteFirst(9'000'000)), 60'001);
  std::optional<FlowEvent> event = path.steering.events().Pop();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, FlowEvent::Kind::kRestarted);
  EXPECT_EQ(event->psn, 9'000'000U);
  RoceFrame other = WriteFirst();
  other.source_port = 50'123;
  path.Send(other);
  event = path.steering.events().Pop();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->own_port, 50'123);
  EXPECT_EQ(path.table.Read(slot).bytes, 0U);
}

TEST(PacketSteering, NeverWaitsForTheControlThread) {
  SteeredPath path;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    RoceFrame frame = WriteFirst();
    frame.destination_qpn = 100 + i;
    path.Send(frame);
  }
  EXPECT_EQ(path.steering.counts().lost_events.load(), 5000U - 4096);
  EXPECT_EQ(path.steering.counts().frames.load(), 5000U);
  EXPECT_EQ(path.steering.counts().roce.load(), 5000U);
  EXPECT_EQ(path.steering.counts().rewritten.load(), 0U);
}

// Returns how a frame must leave, by parsing and the change of port alone, without its flow's
// history.
using Ports = std::unordered_map<FlowKey, std::uint16_t, FlowKeyHash>;
Bytes LeavesAs(const BuiltFrame& frame, const Ports& ports) {
  Bytes bytes = frame.bytes;
  const RocePacket packet = ParseAnyRoce(bytes.data(), static_cast<std::uint32_t>(bytes.size()));
  if (!packet || packet.IsProbe()) return bytes;
  const auto port = ports.find(KeyOf(packet));
  if (port != ports.end()) RewriteSourcePort(packet, Swap16(port->second), Patch());
  return bytes;
}

// Makes the next packet that a flow is expected to send, and variants of it.
RoceFrame NextOf(RoceFrame& last, std::mt19937_64& random) {
  last.psn = (last.psn + 1) & kPsnMask;
  if (random() % 8 == 0) last.payload.resize(4 * (random() % 300), 0x11);
  if (random() % 8 == 0) last.opcode = static_cast<std::uint8_t>(random() % 0x18);
  RoceFrame frame = last;
  frame.hop_limit = static_cast<std::uint8_t>(random());
  frame.padding = random() % 4 == 0 ? 2 : 0;
  switch (random() % 16) {
    case 0:
      frame.psn = (frame.psn - 1) & kPsnMask;
      break;
    case 1:
      frame.asks_for_acknowledgement = true;
      break;
    case 2:
      frame.udp_checksum = true;
      break;
    case 3:
      frame.vlan_types = {0x8100};
      break;
    case 4:
      frame.vlan_types = {0x88A8, 0x8100};
      break;
    case 5:
      frame.option_bytes = 8;
      break;
    case 6:
      frame.extensions = {0};
      break;
    case 7:
      frame.source_port = 50'001;
      break;
    case 8:
      frame.destination_port = 4792;
      break;
    case 9:
      frame.payload = Bytes(4 * frame.hop_limit, 0);
      frame.opcode = kSendOnly;
      break;
    default:
      break;
  }
  return frame;
}

// Adds flows that send nothing, as cores interleave stages if the table has many.
constexpr std::uint32_t kMany = 10'000;
void AddSilentFlows(DatapathFlowTable& table, std::uint32_t count) {
  FlowKey key = KeyOfFlow(0x100000);
  for (std::uint32_t flow = 0; flow < count; ++flow) {
    key.number = Swap32(0x100000 + flow) | 4U;
    ASSERT_TRUE(table.Add(key, FlowKind::kRequests, 50'000, 0));
  }
}

// The fast path and the slow path must give the same bytes, whatever is
// changed in a packet, by builder or by chance.
void SteerAtRandom(std::uint32_t silent_flows) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  SteeredPath path(silent_flows + 8);
  AddSilentFlows(path.table, silent_flows);
  Ports ports;
  std::vector<RoceFrame> flows;
  for (std::uint32_t qpn = 0x20; qpn < 0x28; ++qpn) {
    RoceFrame flow = WriteMiddle(0xFFFFF0);
    flow.destination_qpn = qpn;
    if (qpn % 2 == 0) flow.source = "fd00::1", flow.destination = "fd00::2";
    BuiltFrame built = Build(flow);
    const RocePacket packet =
        ParseRoce(built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size()));
    const auto slot = path.table.Add(KeyOf(packet), FlowKind::kRequests, 50'000, flow.psn);
    const auto port =
        qpn == 0x27 ? std::uint16_t{50'000} : static_cast<std::uint16_t>(60'000 + qpn);
    path.table.SetPort(*slot, port);
    ports.emplace(KeyOf(packet), port);
    flows.push_back(flow);
  }
  path.table.Publish();
  std::uint64_t as_the_builder_made_it = 0;
  for (int burst = 0; burst < 3000; ++burst) {
    std::vector<BuiltFrame> sent;
    std::vector<Frame> frames;
    std::vector<Bytes> expected;
    const std::size_t size = 1 + random() % 70;
    for (std::size_t i = 0; i < size; ++i) {
      sent.push_back(Build(NextOf(flows[random() % flows.size()], random)));
      Bytes& bytes = sent.back().bytes;
      if (random() % 16 == 0)
        bytes[12 + random() % 60] ^= static_cast<std::uint8_t>(1U << random() % 8);
      if (random() % 64 == 0) bytes.resize(random() % bytes.size());
      expected.push_back(LeavesAs(sent.back(), ports));
    }
    for (BuiltFrame& one : sent) {
      frames.push_back({one.bytes.data(), static_cast<std::uint32_t>(one.bytes.size())});
    }
    path.steering.Outgoing(frames, 0);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(sent[i].bytes, expected[i]) << "burst " << burst << " frame " << i;
      const std::size_t last = sent[i].bytes.size();
      if (last < sent[i].end) continue;
      as_the_builder_made_it += StoredIcrc(sent[i]) == ReferenceIcrc(sent[i]) ? 1 : 0;
    }
    while (path.steering.events().Pop()) {
    }
  }
  EXPECT_GT(as_the_builder_made_it, 80'000U);
  EXPECT_EQ(path.steering.counts().lost_events.load(), 0U);
}

TEST(PacketSteering, GivesEveryPacketWhatItWouldGetAlone) { SteerAtRandom(0); }

TEST(PacketSteering, GivesEveryPacketWhatItWouldGetAloneAmongManyFlows) { SteerAtRandom(kMany); }

// Bursts of every length, also with frames that are no packets: each frame is counted once.
TEST(PacketSteering, CountsBurstsOfEveryLengthAmongFewAndManyFlows) {
  for (const std::uint32_t silent_flows : {0U, kMany}) {
    SteeredPath path(silent_flows + 1);
    AddSilentFlows(path.table, silent_flows);
    const auto slot = path.table.Add(KeyOfFlow(0x11), FlowKind::kRequests, 50'000, 0);
    path.table.SetPort(*slot, 60'001);
    path.table.Publish();
    std::uint32_t packets = 0;
    std::uint64_t others = 0;
    for (std::size_t size = 0; size <= 150; ++size) {
      std::vector<BuiltFrame> sent;
      std::vector<Frame> frames;
      for (std::size_t i = 0; i < size; ++i) {
        sent.push_back(Build(WriteMiddle(packets)));
        if (i % 8 == 3) {
          sent.back().bytes[14 + 9] = 6;  // TCP
          ++others;
        } else {
          ++packets;
        }
      }
      for (BuiltFrame& one : sent) {
        frames.push_back({one.bytes.data(), static_cast<std::uint32_t>(one.bytes.size())});
      }
      path.steering.Outgoing(frames, 0);
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_EQ(Get16(sent[i].bytes, sent[i].udp), i % 8 == 3 ? 50'000 : 60'001);
      }
    }
    EXPECT_EQ(path.table.Read(*slot).packets, packets);
    EXPECT_EQ(path.table.Read(*slot).bytes, packets * 1024ULL);
    EXPECT_EQ(path.table.next_psn(*slot), packets);
    EXPECT_EQ(path.steering.counts().frames.load(), packets + others);
    EXPECT_EQ(path.steering.counts().roce.load(), packets);
    EXPECT_EQ(path.steering.counts().rewritten.load(), packets);
  }
}

// Compares each count with that of the fast path.
TEST(PacketSteering, CountsTheSameWhetherExpectedOrNot) {
  SteeredPath path;
  path.Send(WriteFirst(0xFFFFF0));
  const std::uint32_t slot = path.Open(*path.steering.events().Pop(), 60'001);
  path.Send(WriteFirst(0xFFFFF0));
  for (std::uint32_t i = 1; i <= 64; ++i) {
    RoceFrame frame = WriteMiddle((0xFFFFF0 + i) & kPsnMask);
    frame.asks_for_acknowledgement = i % 16 == 0;
    ExpectPort(path.Send(frame), 60'001);
    if (i == 32) path.table.SetPort(slot, 60'001);
  }
  FlowCounts counts = path.table.Read(slot);
  EXPECT_EQ(counts.packets, 65U);
  EXPECT_EQ(counts.bytes, 65U * 1024 + 16);
  EXPECT_EQ(counts.retries, 0U);
  EXPECT_EQ(path.table.next_psn(slot), 0x31U);
  // A port that is changed or taken back counts from the next packet on.
  path.table.SetPort(slot, 60'002);
  ExpectPort(path.Send(WriteMiddle(0x31)), 60'002);
  ExpectPort(path.Send(WriteMiddle(0x32)), 60'002);
  path.table.SetPort(slot, 0);
  ExpectPort(path.Send(WriteMiddle(0x33)), 50'000);
  ExpectPort(path.Send(WriteMiddle(0x34)), 50'000);
  path.table.SetPort(slot, 60'002);
  ExpectPort(path.Send(WriteMiddle(0x35)), 60'002);
  EXPECT_EQ(path.table.Read(slot).packets, 70U);
  EXPECT_EQ(path.steering.counts().rewritten.load(), 68U);
  EXPECT_EQ(path.steering.counts().roce.load(), 71U);
}

// Lengths and opcodes change from packet to packet. A packet that is no request of the flow, or no
// whole packet, counts nothing.
TEST(PacketSteering, CountsPacketsOfEveryLengthOnce) {
  for (const bool is_v4 : {true, false}) {
    SteeredPath path;
    RoceFrame frame = WriteFirst(0);
    if (!is_v4) frame.source = "fd00::1", frame.destination = "fd00:1::1";
    path.Send(frame);
    const std::uint32_t slot = path.Open(*path.steering.events().Pop(), 60'001);
    path.Send(frame);
    std::uint64_t bytes = 16 + 1024;
    for (const std::uint8_t opcode : Bytes{7, 7, 8, 6, 7, 10, 0, 1, 2}) {
      for (const std::size_t length : {0U, 4U, 4096U, 1024U, 1024U, 68U}) {
        ++frame.psn;
        frame.opcode = opcode;
        frame.payload = Bytes(length, 7);
        bytes += length;
        ExpectPort(path.Send(frame), 60'001);
      }
    }
    const std::uint32_t packets = 1 + 9 * 6;
    EXPECT_EQ(path.table.Read(slot).packets, packets);
    EXPECT_EQ(path.table.Read(slot).bytes, bytes);
    EXPECT_EQ(path.table.next_psn(slot), packets);
    ++frame.psn;
    // A READ response and an acknowledgement to the same queue pair, with the PSN of its turn.
    for (const std::uint8_t opcode : Bytes{0x0E, 0x11}) {
      frame.opcode = opcode;
      ExpectPort(path.Send(frame), 60'001);
    }
    frame.opcode = 0x07;
    BuiltFrame cut = Build(frame);
    cut.bytes.resize(cut.bytes.size() - 4);
    const Bytes before = cut.bytes;
    path.Out(cut.bytes);
    EXPECT_EQ(cut.bytes, before);
    EXPECT_EQ(path.table.Read(slot).bytes, bytes);
    EXPECT_EQ(path.table.next_psn(slot), packets);
    EXPECT_EQ(path.table.Read(slot).retries, 0U);
  }
}

// Addresses that differ in one bit are different flows, wherever the bit is.
TEST(PacketSteering, ComparesAllOfTheAddresses) {
  SteeredPath path;
  RoceFrame frame = WriteFirst(0);
  frame.source = "fd00::1";
  frame.destination = "fd00:1::1";
  path.Send(frame);
  path.Open(*path.steering.events().Pop(), 60'001);
  for (int i = 0; i < 4; ++i, ++frame.psn) ExpectPort(path.Send(frame), 60'001);
  const BuiltFrame built = Build(frame);
  for (std::size_t bit = 0; bit < 256; ++bit) {
    Bytes bytes = built.bytes;
    bytes[built.ip + 8 + bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    const Bytes before = bytes;
    path.Out(bytes);
    EXPECT_EQ(bytes, before) << "bit " << bit;
  }
  ExpectPort(path.Send(frame), 60'001);
}

// If a device spreads a flow over cores, each packet must still be right.
TEST(PacketSteering, IsRightForAFlowOnTwoCores) {
  DatapathFlowTable table(4, 2);
  PacketSteering cores[2] = {{table, 0, Patch()}, {table, 1, Patch()}};
  const std::uint32_t slot = table.Add(KeyOfFlow(0x11), FlowKind::kRequests, 50'000, 0).value();
  table.SetPort(slot, 60'001);
  table.Publish();
  const auto run = [&](int core) {
    for (std::uint32_t i = 0; i < 4000; ++i) {
      RoceFrame sent = WriteMiddle(i);
      sent.payload.resize(4 * (i / 64 % 7 + static_cast<std::uint32_t>(core)));
      BuiltFrame frame = Build(sent);
      const Frame one{frame.bytes.data(), static_cast<std::uint32_t>(frame.bytes.size())};
      cores[core].Outgoing({&one, 1}, 0);
      EXPECT_EQ(Get16(frame.bytes, frame.udp), 60'001);
      EXPECT_EQ(StoredIcrc(frame), ReferenceIcrc(frame));
    }
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

}  // namespace
}  // namespace espalier::dpdk
