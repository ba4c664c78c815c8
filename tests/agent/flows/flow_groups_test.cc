// Queue pairs of one program between two NICs become one flow.
#include "agent/flows/flow_groups.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "agent/flows/flow_meter.h"
#include "tests/agent/manual_loop.h"

namespace espalier::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Host : public FlowSource, public FlowActuator {
 public:
  std::span<const FlowSample> Flows() override {
    samples_.clear();
    for (const auto& [id, flow] : flows) samples_.push_back(flow);
    return samples_;
  }
  void OnChange(std::function<void()> callback) override { on_change = std::move(callback); }
  Result<void> Apply(const wire::PathSet& paths) override {
    if (!flows.contains(paths.flow)) return Fail(ErrorCode::kNotFound, "ended");
    applied[paths.flow.value()] = paths;
    return {};
  }
  Result<void> Clear(wire::LocalFlowId flow) override {
    if (!flows.contains(flow)) return Fail(ErrorCode::kNotFound, "ended");
    applied.erase(flow.value());
    return {};
  }

  std::map<wire::LocalFlowId, FlowSample> flows;
  std::map<std::uint64_t, wire::PathSet> applied;
  std::function<void()> on_change;

 private:
  std::vector<FlowSample> samples_;
};

class FlowGroupsTest : public testing::Test {
 protected:
  FlowSample& Open(std::uint64_t id, const std::string& to = "10.1.0.1", std::uint64_t client = 1) {
    const wire::LocalFlowId flow(client << 32U | id);
    FlowSample& sample = host_.flows[flow];
    sample.id = flow;
    sample.job = "train";
    sample.source = *IpAddress::Parse("10.0.0.1");
    sample.destination = *IpAddress::Parse(to);
    sample.local_qpn = static_cast<std::uint32_t>(100 + id);
    sample.remote_qpn = static_cast<std::uint32_t>(200 + id);
    sample.source_port = static_cast<std::uint16_t>(50'000 + id);
    return sample;
  }
  void End(std::uint64_t id) { host_.flows.erase(Id(id)); }
  static wire::LocalFlowId Id(std::uint64_t id) {
    return wire::LocalFlowId(std::uint64_t{1} << 32U | id);
  }
  // The flows after queue pairs had time to be grouped.
  std::vector<FlowSample> Settled() {
    groups_.Flows();
    loop_.Advance(100ms);
    const auto flows = groups_.Flows();
    return {flows.begin(), flows.end()};
  }
  static wire::PathSet Paths(wire::LocalFlowId flow, const std::vector<std::uint16_t>& ports) {
    wire::PathSet set{.flow = flow, .paths = {}, .max_rate_bps = 800};
    for (const std::uint16_t port : ports) set.paths.push_back({.source_port = port});
    return set;
  }
  std::uint16_t PortOf(std::uint64_t id) {
    return host_.applied.at(Id(id).value()).paths.at(0).source_port;
  }

  ManualLoop loop_;
  Host host_;
  FlowGroups groups_{loop_, host_, host_};
};

TEST_F(FlowGroupsTest, QueuePairsOfOneConnectionAreOneFlowWithASubflowEach) {
  for (std::uint64_t id = 1; id <= 4; ++id) {
    FlowSample& pair = Open(id);
    pair.outstanding_bytes = 10 * id;
    pair.sent_bytes = 100 * id;
    pair.retries = 1;
    pair.announced.user = 1'000;
  }
  EXPECT_THAT(groups_.Flows(), IsEmpty());  // more may open
  const auto flows = Settled();
  ASSERT_THAT(flows, SizeIs(1));
  EXPECT_EQ(flows[0].id, Id(4));
  EXPECT_EQ(flows[0].announced.user, 1'000U);
  EXPECT_EQ(flows[0].max_paths, 4);
  EXPECT_EQ(flows[0].outstanding_bytes, 100U);
  EXPECT_EQ(flows[0].sent_bytes, 1'000U);
  EXPECT_EQ(flows[0].retries, 4U);
  EXPECT_THAT(flows[0].ports, SizeIs(4));
  EXPECT_THAT(groups_.MembersOf(Id(4)), ElementsAre(Id(1), Id(2), Id(3), Id(4)));
}

TEST_F(FlowGroupsTest, OtherProgramsAndOtherNicsAreOtherFlows) {
  Open(1);
  Open(2, "10.1.0.2");
  Open(3, "10.1.0.1", 2);
  Open(4).movable = false;
  Open(5).local_qpn = 0;  // no queue pair
  Open(6).max_paths = 2;  // split by the program itself
  const auto flows = Settled();
  EXPECT_THAT(flows, SizeIs(6));
  for (const FlowSample& flow : flows) EXPECT_LE(flow.max_paths, 2);
}

TEST_F(FlowGroupsTest, QueuePairsThatAreToStayAloneDo) {
  for (std::uint64_t id = 1; id <= 3; ++id) Open(id).announced.is_alone = true;
  EXPECT_THAT(Settled(), SizeIs(3));
}

TEST_F(FlowGroupsTest, GroupKeepsItsRateIfAllItsQueuePairsDo) {
  Open(1).keeps_rate = true;
  Open(2).keeps_rate = true;
  ASSERT_THAT(Settled(), SizeIs(1));
  EXPECT_TRUE(Settled()[0].keeps_rate);
  host_.flows[Id(1)].keeps_rate = false;
  EXPECT_FALSE(Settled()[0].keeps_rate);
}

TEST_F(FlowGroupsTest, EachQueuePairGetsAPathAndItsShareOfTheRate) {
  for (std::uint64_t id = 1; id <= 2; ++id) Open(id);
  ASSERT_THAT(Settled(), SizeIs(1));
  ASSERT_TRUE(groups_.Apply(Paths(Id(2), {49'152, 49'153})));
  EXPECT_EQ(PortOf(1), 49'152);
  EXPECT_EQ(PortOf(2), 49'153);
  EXPECT_EQ(host_.applied.at(Id(1).value()).max_rate_bps, 400U);
  // A queue pair whose port stays keeps it, in whatever order the paths come.
  ASSERT_TRUE(groups_.Apply(Paths(Id(2), {49'160, 49'152})));
  EXPECT_EQ(PortOf(1), 49'152);
  EXPECT_EQ(PortOf(2), 49'160);
  // With one path left, both take it.
  ASSERT_TRUE(groups_.Apply(Paths(Id(2), {49'160})));
  EXPECT_EQ(PortOf(1), 49'160);
  EXPECT_EQ(PortOf(2), 49'160);
  ASSERT_TRUE(groups_.Clear(Id(2)));
  EXPECT_TRUE(host_.applied.empty());
}

TEST_F(FlowGroupsTest, AGroupThatGrowsIsANewFlowOnTheSamePorts) {
  for (std::uint64_t id = 1; id <= 2; ++id) Open(id);
  ASSERT_THAT(Settled(), SizeIs(1));
  ASSERT_TRUE(groups_.Apply(Paths(Id(2), {49'152, 49'153})));
  EXPECT_THAT(Settled()[0].kept.paths, IsEmpty());
  Open(3);
  const auto flows = Settled();
  ASSERT_THAT(flows, SizeIs(1));
  EXPECT_EQ(flows[0].id, Id(3));
  EXPECT_EQ(flows[0].max_paths, 3);
  ASSERT_THAT(flows[0].kept.paths, SizeIs(2));
  EXPECT_EQ(flows[0].kept.paths[0].source_port, 49'152);
  EXPECT_EQ(flows[0].kept.paths[1].source_port, 49'153);
}

TEST_F(FlowGroupsTest, QueuePairsThatDieOneByOneLeaveTheOthersAlone) {
  for (std::uint64_t id = 1; id <= 4; ++id) Open(id).sent_bytes = 10;
  ASSERT_THAT(Settled(), SizeIs(1));
  std::uint64_t last_sent = 40;
  for (const std::uint64_t id : {4U, 1U, 3U}) {
    End(id);
    const auto flows = Settled();
    ASSERT_THAT(flows, SizeIs(1));
    EXPECT_EQ(flows[0].id, Id(4));  // even after queue pair 4 has ended
    EXPECT_EQ(flows[0].max_paths, 4);
    EXPECT_EQ(flows[0].sent_bytes, last_sent);  // never falls
    host_.flows.at(Id(2)).sent_bytes += 5;
    last_sent += 5;
  }
  EXPECT_TRUE(groups_.Apply(Paths(Id(4), {49'152, 49'153, 49'154, 49'155})));
  EXPECT_THAT(host_.applied, SizeIs(1));
  End(2);
  EXPECT_THAT(Settled(), IsEmpty());
  EXPECT_FALSE(groups_.Apply(Paths(Id(4), {49'152})));
}

TEST_F(FlowGroupsTest, MorePairsThanAFlowHasPathsFormSeveralGroups) {
  for (std::uint64_t id = 1; id <= 40; ++id) Open(id);
  std::multiset<int> sizes;
  for (const FlowSample& flow : Settled()) sizes.insert(flow.max_paths);
  EXPECT_THAT(sizes, ElementsAre(8, 16, 16));
}

TEST_F(FlowGroupsTest, AProgramThatGoesOnOpeningIsNotWaitedForLonger) {
  std::uint64_t id = 0;
  for (int i = 0; i < 30; ++i) {
    Open(++id);
    groups_.Flows();
    loop_.Advance(10ms);
  }
  const auto flows = groups_.Flows();
  ASSERT_FALSE(flows.empty());
  EXPECT_GT(flows[0].max_paths, 1);
}

TEST_F(FlowGroupsTest, TellsWhenAGroupIsReady) {
  int changes = 0;
  groups_.OnChange([&] { ++changes; });
  Open(1);
  groups_.Flows();
  EXPECT_EQ(changes, 0);
  loop_.Advance(100ms);
  EXPECT_EQ(changes, 1);
  EXPECT_THAT(groups_.Flows(), SizeIs(1));
}

TEST_F(FlowGroupsTest, AGroupIsBusyWhileAMemberIs) {
  const TimePoint start = loop_.Now();
  for (std::uint64_t id = 1; id <= 2; ++id) Open(id).edges = {.count = 2, .last = start};
  const auto edges = [&] { return Settled().at(0).edges; };
  EXPECT_EQ(edges().count, 2U);
  host_.flows.at(Id(1)).edges = {.count = 3, .last = start + 5ms};
  EXPECT_EQ(edges().count, 3U);
  EXPECT_EQ(edges().last, start + 5ms);
  host_.flows.at(Id(2)).edges = {.count = 3, .last = start + 6ms};
  host_.flows.at(Id(1)).edges = {.count = 4, .last = start + 8ms};
  EXPECT_EQ(edges().count, 3U);  // the other one is still busy
  host_.flows.at(Id(2)).edges = {.count = 4, .last = start + 9ms};
  EXPECT_EQ(edges().count, 4U);
  EXPECT_EQ(edges().last, start + 9ms);
  EXPECT_EQ(edges().between, 4ms);
  host_.flows.at(Id(1)).edges = {.count = 6, .last = start + 20ms};
  EXPECT_EQ(edges().count, 6U);  // a burst between two looks
  host_.flows.at(Id(2)).edges = {};
  EXPECT_EQ(edges().count, 0U);  // one member does not tell
}

// Queue pairs without shared memory, of which only bytes are known: their edges are those of the
// sum.
TEST_F(FlowGroupsTest, AGroupWhoseMembersTellNoEdgesIsBusyWhileOneHasSomethingToSend) {
  FlowMeter meter({});
  for (std::uint64_t id = 1; id <= 2; ++id) Open(id).sent_bytes = 1 << 30;
  ASSERT_THAT(Settled(), SizeIs(1));
  const auto activity_after = [&](Duration time) {
    Activity activity;
    for (const TimePoint end = loop_.Now() + time; loop_.Now() < end;) {
      loop_.Advance(2ms);
      const auto measures = meter.Measure(loop_.Now(), groups_.Flows());
      EXPECT_EQ(measures.size(), 1U);
      activity = measures[0].activity;
    }
    return activity;
  };
  const auto send = [&](std::uint64_t id, bool is_busy) {
    FlowSample& flow = host_.flows.at(Id(id));
    flow.outstanding_bytes = is_busy ? 1 << 20 : 0;
    flow.sent_bytes += is_busy ? 0 : 1 << 20;
  };
  std::uint32_t edges = activity_after(100ms).edges;
  EXPECT_EQ(edges % 2, 0U);
  for (int burst = 0; burst < 5; ++burst) {
    send(1, true);
    EXPECT_EQ(activity_after(20ms).edges, ++edges);
    send(2, true);
    send(1, false);
    EXPECT_EQ(activity_after(30ms).edges, edges);  // the other one is still busy
    const TimePoint end = loop_.Now();
    send(2, false);
    const Activity idle = activity_after(50ms);
    EXPECT_EQ(idle.edges, ++edges);
    EXPECT_GE(idle.last_edge, end);
    EXPECT_LE(idle.last_edge, end + 4ms);
  }
}

// What is kept from an earlier agent is kept for the group.
TEST_F(FlowGroupsTest, PathsOfAnEarlierAgentAreKept) {
  for (std::uint64_t id = 1; id <= 2; ++id) {
    Open(id).kept.paths = {{.source_port = static_cast<std::uint16_t>(49'151 + id)}};
  }
  const auto flows = Settled();
  ASSERT_THAT(flows, SizeIs(1));
  ASSERT_THAT(flows[0].kept.paths, SizeIs(2));
  EXPECT_EQ(flows[0].kept.paths[1].source_port, 49'153);
}

}  // namespace
}  // namespace espalier::agent
