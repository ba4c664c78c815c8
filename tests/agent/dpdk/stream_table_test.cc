// Tests what cores find out of streams whose other ends are not known, and how little they report.
#include "agent/dpdk/flows/stream_table.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/agent/dpdk/steered_path.h"

namespace espalier::dpdk {
namespace {

RoceFrame Arriving(std::uint32_t qpn, std::uint8_t opcode = 0x06) {
  return {.source = "10.0.1.1",
          .destination = "10.0.0.1",
          .opcode = opcode,
          .destination_qpn = qpn,
          .payload = Reth(8 << 20, 1024)};
}

int CountEvents(SteeredPath& path, FlowEvent::Kind kind) {
  int count = 0;
  while (const std::optional<FlowEvent> event = path.steering.events().Pop()) {
    EXPECT_EQ(event->kind, kind);
    ++count;
  }
  return count;
}

TEST(Streams, CoresReportAFewUnknownOnesAtATime) {
  SteeredPath path;
  const auto arrive = [&] {
    for (std::uint32_t qpn = 100; qpn < 200; ++qpn) path.Receive(Arriving(qpn));
    return CountEvents(path, FlowEvent::Kind::kArrival);
  };
  const auto answer = [&] {
    for (std::uint32_t qpn = 100; qpn < 200; ++qpn) {
      path.Send({.opcode = 0x11, .destination_qpn = qpn, .payload = Aeth(0)});
    }
    return CountEvents(path, FlowEvent::Kind::kAnswer);
  };
  EXPECT_EQ(arrive(), 0) << "nobody asked";
  for (int time = 0; time < 3; ++time) {
    path.table.LookAtStreams(true);
    EXPECT_EQ(arrive(), 8);
    EXPECT_EQ(arrive(), 0);
    EXPECT_EQ(answer(), 8);
    EXPECT_EQ(answer(), 0);
  }
  path.table.LookAtStreams(false);
  EXPECT_EQ(arrive(), 8);
  EXPECT_EQ(answer(), 0) << "they are of no use without data";
  // Neither messages of one packet nor those for management.
  path.table.LookAtStreams(true);
  path.Receive(Arriving(100, 0x0A));
  path.Receive(Arriving(1));
  path.Receive(Arriving(100, 0x64));
  EXPECT_EQ(CountEvents(path, FlowEvent::Kind::kArrival), 0);
}

// Devices may give a core nothing but what leaves.
TEST(Streams, ACoreReportsAcknowledgementsWithoutSeeingData) {
  SteeredPath path;
  for (int time = 0; time < 3; ++time) {
    path.table.LookAtStreams(true);
    path.Send({.opcode = 0x11, .destination_qpn = 100, .payload = Aeth(0)});
    EXPECT_EQ(CountEvents(path, FlowEvent::Kind::kAnswer), 1);
  }
}

TEST(Streams, KnownOnesAreLookedAtAndNotReported) {
  SteeredPath path;
  path.table.LookAtStreams(true);
  path.Receive(Arriving(100));
  const FlowKey key = path.steering.events().Pop()->key;
  const auto slot = path.table.streams().AddArrival(key, FlowKind::kRequests, 0);
  path.table.Publish();
  const ArrivalLine& line = path.table.streams().arrival(*slot);
  RoceFrame data = Arriving(100, 0x07);
  data.payload = Bytes(1000, 1);
  for (data.psn = 1; data.psn < 11; ++data.psn) path.Receive(data);
  EXPECT_EQ(line.next.load(), 11U);
  EXPECT_EQ(line.bytes.load(), 10'000U);
  // Other packets of the queue pair have numbers of their own.
  data.opcode = 0x0E;
  data.psn = 500;
  path.Receive(data);
  EXPECT_EQ(line.next.load(), 11U);
  EXPECT_FALSE(path.steering.events().Pop());
}

TEST(Streams, ArrivingDataAreAsFarAsTheirFurthestPacket) {
  ArrivalLine line;
  for (const std::uint32_t psn : {0xFFFFFEU, 0xFFFFFFU, 0U, 0xFFFFFEU, 0xFFFFFFU}) {
    line.Advance(psn, 100);
  }
  EXPECT_EQ(line.next.load(), 1U);
  // Another queue pair has the number.
  line.Advance(0x800010, 100);
  EXPECT_EQ(line.next.load(), 0x800011U);
}

TEST(Streams, DataThatHaveNotComeSoFarAreNotAcknowledged) {
  StreamTable table(1);
  const std::atomic<std::uint64_t> ahead = 0x11'0000'0010;  // as in a flow's line
  const std::atomic<std::uint64_t> equal = 6;
  const std::atomic<std::uint64_t> behind = 5;
  const std::atomic<std::uint64_t> far = 0x20006;
  const std::vector<const std::atomic<std::uint64_t>*> next = {&ahead, &equal, &behind, &far};
  AckMatch& match = table.match(*table.AddMatch({}, FlowKind::kRequests, next));
  EXPECT_EQ(match.possible.load(), 0xFU);
  match.Compare(5, FlowKind::kResponses);
  EXPECT_EQ(match.seen.load(), 0U) << "a request of data is no acknowledgement";
  match.Compare(5, FlowKind::kRequests);
  EXPECT_EQ(match.possible.load(), 3U);
  EXPECT_EQ(match.seen.load(), 1U);
}

TEST(Streams, DataThatHaveComeFurtherAreNotRequested) {
  StreamTable table(1);
  const std::atomic<std::uint64_t> ahead = 6;
  const std::atomic<std::uint64_t> equal = 5;
  const std::atomic<std::uint64_t> behind = 1;
  const std::vector<const std::atomic<std::uint64_t>*> next = {&ahead, &equal, &behind};
  AckMatch& match = table.match(*table.AddMatch({}, FlowKind::kResponses, next));
  match.Compare(5, FlowKind::kResponses);
  EXPECT_EQ(match.possible.load(), 6U);
}

// One core sees the data, the other one the acknowledgements, which leave after the data.
TEST(Streams, WhatIsAcknowledgedIsNeverStruckOutWhicheverCoreSeesIt) {
  DatapathFlowTable table(16, 2);
  PacketSteering data_core(table, 0, Patch());
  PacketSteering answer_core(table, 1, Patch());
  const auto receive = [&](std::uint32_t qpn, std::uint32_t psn) {
    RoceFrame frame = Arriving(qpn, 0x07);
    frame.psn = psn;
    frame.payload = Bytes(64, 1);
    BuiltFrame built = Build(frame);
    const Frame one{built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size())};
    data_core.Incoming({&one, 1}, 1);
  };
  std::vector<const std::atomic<std::uint64_t>*> next;
  for (const std::uint32_t qpn : {100U, 101U}) {
    const FlowKey key = KeyOfFlow(qpn).Reversed(qpn);
    const auto slot = table.streams().AddArrival(key, FlowKind::kRequests, 0);
    next.push_back(&table.streams().arrival(*slot).next);
  }
  const auto slot = table.streams().AddMatch(KeyOfFlow(0x11), FlowKind::kRequests, next);
  table.LookAtStreams(true);
  table.Publish();
  constexpr std::uint32_t kPackets = 20'001;  // after which the second is behind
  std::atomic<std::uint32_t> arrived = 0;
  std::thread answers([&] {
    for (std::uint32_t psn = 0; psn < kPackets;) {
      psn = arrived.load(std::memory_order_acquire);
      BuiltFrame built = Build({.opcode = 0x11, .psn = psn, .payload = Aeth(0)});
      const Frame one{built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size())};
      answer_core.Outgoing({&one, 1}, 1);
    }
  });
  for (std::uint32_t psn = 1; psn <= kPackets; ++psn) {
    receive(100, psn);
    arrived.store(psn, std::memory_order_release);
    if (psn % 8 == 0) receive(101, psn);
    if (psn % 1'000 == 0) table.Publish();
    table.Reclaim();
  }
  answers.join();
  const AckMatch& match = table.streams().match(*slot);
  EXPECT_EQ(match.possible.load(), 1U);
  EXPECT_GT(match.seen.load(), 0U);
}

TEST(Streams, AFullTableTakesNoMore) {
  StreamTable table(2);
  EXPECT_TRUE(table.AddArrival({.number = 4}, FlowKind::kRequests, 0));
  const auto second = table.AddArrival({.number = 5}, FlowKind::kRequests, 0);
  EXPECT_FALSE(table.AddArrival({.number = 6}, FlowKind::kRequests, 0));
  table.RemoveArrival(*second);
  EXPECT_FALSE(table.AddArrival({.number = 6}, FlowKind::kRequests, 0)) << "cores may see it still";
  table.Free(table.TakeRemoved());
  EXPECT_TRUE(table.AddArrival({.number = 6}, FlowKind::kRequests, 0));
  const std::atomic<std::uint64_t> next = 0;
  const std::vector<const std::atomic<std::uint64_t>*> one = {&next};
  for (std::uint32_t i = 0; i < StreamTable::kMostMatches; ++i) {
    EXPECT_TRUE(table.AddMatch({.number = i}, FlowKind::kRequests, one));
  }
  EXPECT_FALSE(table.AddMatch({.number = 1'000}, FlowKind::kRequests, one));
}

}  // namespace
}  // namespace espalier::dpdk
