// Tests that cores find the flows of a datapath while the control thread changes them.
#include "agent/dpdk/flows/datapath_flow_table.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "tests/agent/dpdk/steered_path.h"

namespace espalier::dpdk {
namespace {

TEST(DatapathFlowTable, UsesASlotAgainWhenEveryCoreHasFinishedABurst) {
  DatapathFlowTable table(2, 2);
  const auto add = [&table](std::uint32_t qpn) {
    return table.Add(KeyOfFlow(qpn), FlowKind::kRequests, 50'000, 0);
  };
  const std::uint32_t first = add(1).value();
  ASSERT_TRUE(add(2));
  EXPECT_FALSE(add(3)) << "full";
  table.Publish();
  table.Remove(first);
  EXPECT_FALSE(add(3)) << "cores still find it";
  table.Publish();
  table.Reclaim();
  EXPECT_FALSE(add(3)) << "cores may be at work with it";
  table.Finish(0);
  table.Reclaim();
  EXPECT_FALSE(add(3)) << "one of them still is";
  table.Finish(1);
  table.Reclaim();
  EXPECT_EQ(add(3), first);
  EXPECT_EQ(table.size(), 2U);
}

TEST(DatapathFlowTable, FindsEveryFlowOfMany) {
  constexpr std::uint32_t kFlows = 20'000;
  SteeredPath path(kFlows);
  for (std::uint32_t flow = 0; flow < kFlows; ++flow) {
    const auto slot = path.table.Add(KeyOfFlow(100 + flow), FlowKind::kRequests, 50'000, 0);
    ASSERT_TRUE(slot);
    path.table.SetPort(*slot, static_cast<std::uint16_t>(1 + flow));
  }
  path.table.Publish();
  std::vector<BuiltFrame> frames;
  std::vector<Frame> burst;
  for (std::uint32_t flow = 0; flow < kFlows; ++flow) {
    RoceFrame frame = WriteMiddle(0);
    frame.destination_qpn = 100 + flow;
    frames.push_back(Build(frame));
  }
  for (BuiltFrame& frame : frames) {
    burst.push_back({frame.bytes.data(), static_cast<std::uint32_t>(frame.bytes.size())});
  }
  path.steering.Outgoing(burst, 0);
  for (std::uint32_t flow = 0; flow < kFlows; ++flow) {
    ASSERT_EQ(Get16(frames[flow].bytes, frames[flow].udp), 1 + flow);
  }
}

FlowKey KeyBetween(const char* source, const char* destination, std::uint32_t qpn) {
  BuiltFrame frame =
      Build({.source = source, .destination = destination, .opcode = 0x07, .destination_qpn = qpn});
  return KeyOf(ParseRoce(frame.bytes.data(), static_cast<std::uint32_t>(frame.bytes.size())));
}

// Makes flows as in clusters from one key: to many hosts, from many, to many queue pairs, and all
// combined.
std::vector<std::vector<FlowKey>> FamiliesLike(const FlowKey& first) {
  const std::size_t last = first.is_v4() ? 3 : 15;  // byte of an address
  std::vector<std::vector<FlowKey>> families(4);
  for (std::uint32_t i = 0; i < 4096; ++i) {
    const auto host = [i](std::uint8_t* byte) {
      byte[0] = static_cast<std::uint8_t>(i);
      byte[-1] = static_cast<std::uint8_t>(i >> 8);
    };
    FlowKey to = first;
    host(to.addresses + 2 * last + 1);
    FlowKey from = first;
    host(from.addresses + last);
    FlowKey numbered = first;
    numbered.number = Swap32(0x100 + i) | (first.number & 0xFF);
    FlowKey all = first;
    all.addresses[last] = static_cast<std::uint8_t>(i % 8);
    all.addresses[2 * last + 1] = static_cast<std::uint8_t>(i / 8 % 64);
    all.number = Swap32(0x100 + i / 512) | (first.number & 0xFF);
    for (std::size_t family = 0; const FlowKey& key : {to, from, numbered, all}) {
      families[family++].push_back(key);
    }
  }
  return families;
}

const FlowKey kFirstKeys[] = {KeyBetween("10.0.0.1", "10.1.0.1", 0x11),
                              KeyBetween("fd00::1", "fd00:1::1", 0x11)};

// The first guess is right, although flows of one host to queue pairs with the same number
// share one bucket.
TEST(FlowIndex, GuessesRightWhereKeysDifferInOneAddressAlone) {
  for (const FlowKey& first : kFirstKeys) {
    for (std::size_t size : {8U, 512U, 4096U}) {
      for (const std::vector<FlowKey>& family : FamiliesLike(first)) {
        FlowIndex index(size);
        for (std::uint32_t slot = 0; slot < size; ++slot) index.Add(HashOf(family[slot]), slot);
        for (std::uint32_t slot = 0; slot < size; ++slot) {
          ASSERT_EQ(index.reader().Guess(HashOf(family[slot])), slot + 1) << first.is_v4();
        }
      }
    }
  }
}

TEST(FlowIndex, HasRoomToSpareWhileItIsSmall) {
  EXPECT_EQ(FlowIndex(1000).bytes(), 8U * 8 * 1024);
  EXPECT_EQ(FlowIndex(8192).bytes(), 128U << 10);
  EXPECT_EQ(FlowIndex(100'000).bytes(), 2U << 20);
}

// A random hash would put 4,096 keys into 3,223 of 8,192 buckets.
TEST(FlowIndex, SpreadsKeysThatDifferInLittle) {
  for (const FlowKey& first : kFirstKeys) {
    for (const std::vector<FlowKey>& family : FamiliesLike(first)) {
      std::set<std::uint64_t> buckets;
      for (const FlowKey& key : family) buckets.insert(HashOf(key) >> (64 - 13));
      EXPECT_GT(buckets.size(), 2800U) << first.is_v4();
    }
  }
}

// A core steers packets while the control thread adds, removes and moves the flow: each packet
// leaves unbroken, with its own port or one that was chosen for its flow.
TEST(DatapathFlowTable, ChangesUnderACoreAtWork) {
  SteeredPath path(4);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> bursts{0};
  std::thread core([&] {
    std::uint32_t psn = 0;
    while (!stop.load()) {
      for (const std::uint32_t qpn : {0x11U, 0x12U, 0x13U}) {
        RoceFrame frame = WriteMiddle(psn);
        frame.destination_qpn = qpn;
        const BuiltFrame sent = path.Send(frame);
        const std::uint32_t port = Get16(sent.bytes, sent.udp);
        EXPECT_TRUE(port == 50'000 || port / 100 == qpn) << port;
        EXPECT_EQ(StoredIcrc(sent), ReferenceIcrc(sent));
      }
      psn = (psn + 1) & kPsnMask;
      bursts.fetch_add(1);
    }
  });
  for (std::uint32_t round = 0; round < 300; ++round) {
    const std::uint32_t qpn = 0x11 + round % 3;
    std::optional<std::uint32_t> slot;
    while (!slot) {
      path.table.Reclaim();
      slot = path.table.Add(KeyOfFlow(qpn), FlowKind::kRequests, 50'000, 0);
      if (!slot) std::this_thread::yield();
    }
    path.table.SetPort(*slot, static_cast<std::uint16_t>(100 * qpn));
    path.table.Publish();
    path.table.SetPort(*slot, static_cast<std::uint16_t>(100 * qpn + round % 100));
    (void)path.table.Read(*slot);
    while (path.steering.events().Pop()) {
    }
    path.table.Remove(*slot);
    path.table.Publish();
  }
  stop.store(true);
  core.join();
  EXPECT_GT(bursts.load(), 0U);
}

}  // namespace
}  // namespace espalier::dpdk
