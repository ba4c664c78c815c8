// Tests the list of the kernel's queue pairs, and which of them belong to no flow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "agent/host/queue_pair_list.h"
#include "agent/host/unobserved_watch.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Bytes = std::vector<std::byte>;

Bytes BytesOf(std::string_view text) {
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Bytes Attribute(int kind, const Bytes& value) {
  const nlattr header = {.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + value.size()),
                         .nla_type = static_cast<std::uint16_t>(kind)};
  Bytes bytes(NLA_ALIGN(header.nla_len));
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::copy(value.begin(), value.end(), bytes.begin() + NLA_HDRLEN);
  return bytes;
}

Bytes Number(int kind, std::uint32_t number, std::size_t size = 4) {
  Bytes value(size);
  std::memcpy(value.data(), &number, size);
  return Attribute(kind, value);
}

Bytes Joined(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes Entry(std::uint32_t number, std::uint32_t peer, ibv_qp_type type, ibv_qp_state state) {
  return Attribute(
      RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED,
      Joined({Number(RDMA_NLDEV_ATTR_RES_LQPN, number), Number(RDMA_NLDEV_ATTR_RES_RQPN, peer),
              Number(RDMA_NLDEV_ATTR_RES_SQ_PSN, 0xABCDEF),
              Number(RDMA_NLDEV_ATTR_RES_TYPE, type, 1),
              Number(RDMA_NLDEV_ATTR_RES_STATE, state, 1), Number(RDMA_NLDEV_ATTR_RES_PID, 4321)}));
}

Bytes Answer(const std::vector<Bytes>& entries) {
  return Joined({Number(RDMA_NLDEV_ATTR_DEV_INDEX, 3),
                 Attribute(RDMA_NLDEV_ATTR_DEV_NAME, BytesOf(std::string_view("rxe0\0", 5))),
                 Attribute(RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED, Joined(entries))});
}

std::vector<KernelQueuePair> Read(const Bytes& answer) {
  std::vector<KernelQueuePair> pairs;
  ReadQueuePairs(answer, pairs);
  return pairs;
}

TEST(QueuePairList, HasTheConnectionsThatCanSend) {
  const auto pairs = Read(
      Answer({Entry(1, 0, IBV_QPT_UD, IBV_QPS_RTS), Entry(17, 18, IBV_QPT_RC, IBV_QPS_RTS),
              Entry(19, 20, IBV_QPT_RC, IBV_QPS_ERR), Entry(21, 22, IBV_QPT_UC, IBV_QPS_SQD)}));
  ASSERT_THAT(pairs, SizeIs(2));
  EXPECT_EQ(pairs[0].device, "rxe0");
  EXPECT_EQ(pairs[0].number, 17U);
  EXPECT_EQ(pairs[0].remote_number, 18U);
  EXPECT_EQ(pairs[0].next_packet, 0xABCDEFU);
  EXPECT_EQ(pairs[0].process, 4321U);
  EXPECT_EQ(pairs[1].number, 21U);
}

// Any bytes are read without an access outside of them (asan), and give no invented entries.
TEST(QueuePairList, SkipsTruncatedAndWrongEntries) {
  const Bytes whole = Answer({Entry(17, 18, IBV_QPT_RC, IBV_QPS_RTS)});
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_THAT(Read(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))),
                IsEmpty());
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    Bytes changed = whole;
    for (int change = 0; change < 3; ++change) {
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    }
    EXPECT_LE(Read(changed).size(), 1U);
  }
}

TEST(Unobserved, AreQueuePairsWithoutAFlow) {
  const std::vector<KernelQueuePair> pairs = {{.number = 17, .remote_number = 18},
                                              {.number = 19, .remote_number = 20},
                                              {.number = 21, .remote_number = 22}};
  std::vector<FlowSample> flows(3);
  flows[0].local_qpn = 17;
  flows[0].remote_qpn = 18;
  flows[1].local_qpn = 19;  // another's: the numbers of queue pairs are used again
  flows[1].remote_qpn = 99;
  flows[2].remote_qpn = 22;  // seen from the wire, which does not tell the sender's number
  const auto unobserved = FindUnobserved(pairs, flows, {});
  ASSERT_THAT(unobserved, SizeIs(1));
  EXPECT_EQ(unobserved[0].number, 19U);
  EXPECT_THAT(FindUnobserved(pairs, {}, {}), SizeIs(3));
}

TEST(DeviceTable, OpensDevicesAtGrowingIntervalsForUnknownAddresses) {
  int lists = 0;
  DeviceTable table([&lists] {
    ++lists;
    return std::vector<verbs::RoceAddress>{
        {.device = "mlx5_0", .address = *IpAddress::Parse("10.0.0.1"), .interface = {}}};
  });
  FlowSample flow;
  flow.local_qpn = 17;
  flow.source = *IpAddress::Parse("10.0.0.1");
  TimePoint now{};
  EXPECT_EQ(table.Find({&flow, 1}, now).at(flow.source), "mlx5_0");
  EXPECT_EQ(lists, 1);
  flow.source = *IpAddress::Parse("192.0.2.1");
  for (int i = 0; i < 720; ++i) {  // an hour
    now += std::chrono::seconds(5);
    table.Find({&flow, 1}, now);
  }
  EXPECT_LE(lists, 20);
  EXPECT_GE(lists, 12);
}

TEST(Unobserved, NumbersAreUniqueInOneDeviceOnly) {
  const std::vector<KernelQueuePair> pairs = {
      {.device = "rxe0", .number = 17, .remote_number = 17},
      {.device = "rxe1", .number = 17, .remote_number = 17}};
  FlowSample flow;
  flow.local_qpn = flow.remote_qpn = 17;
  flow.source = IpAddress::FromV4(0x0A000001);
  const auto unobserved = FindUnobserved(pairs, {&flow, 1}, {{flow.source, "rxe0"}});
  ASSERT_THAT(unobserved, SizeIs(1));
  EXPECT_EQ(unobserved[0].device, "rxe1");
  EXPECT_THAT(FindUnobserved(pairs, {&flow, 1}, {}), IsEmpty());
}

}  // namespace
}  // namespace espalier::agent
