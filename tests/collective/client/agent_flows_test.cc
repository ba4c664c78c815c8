// The flows of a job's planned connections over TCP, as the agent of their host sees them.
#include "collective/client/agent_flows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "agent/flows/edge_filter.h"
#include "collective/client/collective.h"
#include "tests/collective/client/local_agent.h"
#include "tests/temporary_folder.h"

namespace espalier {
namespace {

using std::chrono::steady_clock;

TimePoint Now() { return TimePoint(steady_clock::now().time_since_epoch()); }

constexpr std::size_t kCount = 1 << 20;  // 4 MiB

// Ranks at addresses of their own, as on different hosts.
std::vector<wire::RankPlan> PlansOfHosts() {
  auto plans = MakePlans(0, RingBytes(kRanks));
  const auto address_of = [](std::uint32_t rank) {
    return IpAddress::FromV4(0x7F000001U + rank);  // 127.0.0.1, 127.0.0.2, ...
  };
  for (wire::RankPlan& plan : plans) {
    plan.address = address_of(plan.rank);
    for (auto& peer : plan.peers) peer.address = address_of(peer.rank);
  }
  return plans;
}

class AgentFlowsTest : public testing::Test {
 protected:
  AgentFlowsTest() { agent_.Give(PlansOfHosts()); }

  // Runs all ranks.
  void Run(const std::function<void(Collective&, int rank)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          Collective group("", kJob, rank, kRanks, options_);
          body(group, rank);
        } catch (const CollectiveError& error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  static void Sum(Collective& group) {
    std::vector<float> mine(kCount, 1);
    std::vector<float> sum(kCount);
    group.AllReduce(mine.data(), sum.data(), sum.size());
    EXPECT_EQ(sum.back(), kRanks);
  }
  static void Await(const std::function<bool()>& done) {
    const auto end = steady_clock::now() + std::chrono::minutes(1);
    while (!done() && steady_clock::now() < end) std::this_thread::yield();
    EXPECT_TRUE(done());
  }

  TemporaryFolder folder_;
  const std::string socket_ = folder_.path() + "/agent.sock";
  LocalAgent agent_{socket_};
  const espalier_comm_options options_{
      .medium = ESPALIER_TCP, .timeout_ms = 20'000, .agent = socket_.c_str()};
};

TEST_F(AgentFlowsTest, PlannedConnectionsAreFlowsWithFixedPaths) {
  Run([&](Collective& group, int rank) {
    Sum(group);
    if (rank == 0) {
      // A ring: each rank sends to the next one.
      Await([&] { return agent_.Flows().size() == kRanks; });
      for (const agent::FlowSample& flow : agent_.Flows()) {
        const auto from = static_cast<int>(flow.source.V4() - 0x7F000001U);
        const int to = (from + 1) % kRanks;
        EXPECT_EQ(flow.destination.V4() - 0x7F000001U, static_cast<std::uint32_t>(to));
        EXPECT_EQ(flow.job, kJob);
        EXPECT_EQ(flow.protocol, wire::kProtocolTcp);
        EXPECT_EQ(flow.source_port, SourcePort(0, from, to));
        EXPECT_EQ(flow.destination_port, ListenPort(to));
        EXPECT_TRUE(flow.announced.path_fixed);
        EXPECT_FALSE(flow.movable);
      }
    }
    group.Barrier();
  });
  Await([&] { return agent_.Flows().empty(); });
}

// The agent looks long after a call, and still learns to the clock's resolution when it began and
// ended to send: no earlier than the call, and no later than the barrier behind it.
TEST_F(AgentFlowsTest, EdgesHaveTheTimesOfTransfersAndNotOfLooks) {
  Run([&](Collective& group, int rank) {
    Sum(group);
    group.Barrier();
    if (rank == 0) {
      Await([&] { return agent_.Flows().size() == kRanks; });
      for (const agent::FlowSample& flow : agent_.Flows()) {
        EXPECT_GE(flow.edges.count, 4U);
        EXPECT_EQ(flow.edges.count % 2, 0U);
        EXPECT_EQ(flow.remaining_bytes, 0U);
        EXPECT_GE(flow.sent_bytes, kCount * sizeof(float));
        // Two thirds of the vector are sent twice in a ring of three.
        EXPECT_LE(flow.sent_bytes, 2 * kCount * sizeof(float));
      }
    }
    group.Barrier();
    const TimePoint begin = Now();
    Sum(group);
    group.Barrier();
    const TimePoint end = Now();
    if (rank == 0) {
      const auto looked = agent_.Flows();
      ASSERT_EQ(looked.size(), kRanks);
      const auto flow = std::ranges::find_if(
          looked, [](const auto& each) { return each.source.V4() == 0x7F000001U; });
      ASSERT_NE(flow, looked.end());
      EXPECT_GT(flow->edges.last, begin);
      EXPECT_LT(flow->edges.last, end);
      EXPECT_GT(flow->edges.between, Duration{});
      EXPECT_LT(flow->edges.between, end - begin);
      // What the agent's filter makes of it, in a look a minute later.
      agent::SourceEdges before = flow->edges;
      before.count = 2;
      before.last = begin;
      agent::EdgeFilter filter({}, begin, before);
      filter.Update({}, flow->edges.last, flow->edges);
      filter.Update({}, end + std::chrono::minutes(1), flow->edges);
      EXPECT_EQ(filter.activity().edges % 2, 0U);
      EXPECT_EQ(filter.activity().last_edge, flow->edges.last);
    }
    group.Barrier();
  });
}

}  // namespace
}  // namespace espalier
