// Assignments as packet simulators read them.
#include "controller/offline/files/replay_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::offline {
namespace {

// Two leaves with two hosts each and two spines: h0 and h1, h2 and h3.
class ReplayFiles : public testing::Test {
 protected:
  ReplayFiles() {
    flows_.jobs = {"J"};
    flows_.flows = {Flow("a", "h0", "h2", 1'000'003), Flow("b", "h0", "h1", 5),
                    Flow("c", "h1", "h3", 7), Flow("d", "h3", "h0", 9)};
    plan_.flows.resize(4);
    plan_.flows[0] = {
        .state = AssignmentState::kRouted,
        .subflows = 4,
        .paths = {{Links({"h0--leaf0", "leaf0--spine0", "leaf1--spine0", "h2--leaf1"}),
                   3 * controller::kLoadUnit / 4},
                  {Links({"h0--leaf0", "leaf0--spine1", "leaf1--spine1", "h2--leaf1"}),
                   controller::kLoadUnit / 4}}};
    plan_.flows[1].state = AssignmentState::kLocal;
    plan_.flows[3] = {
        .state = AssignmentState::kRouted,
        .paths = {{Links({"h3--leaf1", "leaf1--spine0", "leaf0--spine0", "h0--leaf0"}),
                   controller::kLoadUnit}}};
  }
  FlowRecord Flow(const char* id, const char* from, const char* to, std::int64_t bytes) const {
    return {.id = id,
            .source = *topology_.FindNode(from),
            .destination = *topology_.FindNode(to),
            .bytes = bytes};
  }
  // Up twice, down twice.
  std::vector<std::uint32_t> Links(const std::vector<std::string>& ids) const {
    std::vector<std::uint32_t> links;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const fabric::DirectedLink link{.link = *topology_.FindLink(ids[i]), .forward = i < 2};
      links.push_back(static_cast<std::uint32_t>(link.Index()));
    }
    return links;
  }

  std::vector<ReplayFlow> Replay() const {
    const auto replay = ReplayOf(plan_, flows_, "f.csv");
    EXPECT_TRUE(replay.has_value());
    return replay.value_or(std::vector<ReplayFlow>());
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}));
  FlowSet flows_;
  AssignmentResult plan_;
};

TEST_F(ReplayFiles, HtsimHasNumberedEndsAndNoUnroutableFlows) {
  EXPECT_EQ(FormatHtsim(Replay(), topology_),
            "Nodes 4\n"
            "Connections 3\n"
            "0->2 id 1 start 0 size 1000003\n"
            "0->1 id 2 start 0 size 5\n"
            "3->0 id 4 start 0 size 9\n");
}

// An id with a comma shifted all fields behind it.
TEST_F(ReplayFiles, NamesWithCommasAreQuoted) {
  flows_.flows[0].id = "a,\"b\"";
  flows_.jobs[0] = "J,K";
  EXPECT_NE(FormatNs3(Replay(), topology_).find("\n\"a,\"\"b\"\"\",\"J,K\",h0,h2,0,750002,0,"),
            std::string::npos);
  EXPECT_NE(FormatPathTable(Replay(), topology_).find("\n1,\"a,\"\"b\"\"\",0,0,3,leaf0/"),
            std::string::npos);
}

TEST_F(ReplayFiles, PathsAreNamedByTheirSwitches) {
  EXPECT_EQ(FormatPathTable(Replay(), topology_),
            "connection,flow,from_seconds,path,weight,switches\n"
            "1,a,0,0,3,leaf0/spine0/leaf1\n"
            "1,a,0,1,1,leaf0/spine1/leaf1\n"
            "4,d,0,0,1,leaf1/spine0/leaf0\n");
}

TEST_F(ReplayFiles, BytesOfPathsAddUpToThoseOfTheFlow) {
  EXPECT_EQ(FormatNs3(Replay(), topology_),
            "flow,job,source,destination,start_seconds,bytes,path,links\n"
            "a,J,h0,h2,0,750002,0,h0--leaf0>leaf0/leaf0--spine0>spine0/leaf1--spine0>leaf1/"
            "h2--leaf1>h2\n"
            "a,J,h0,h2,0,250001,1,h0--leaf0>leaf0/leaf0--spine1>spine1/leaf1--spine1>leaf1/"
            "h2--leaf1>h2\n"
            "b,J,h0,h1,0,5,0,\n"
            "d,J,h3,h0,0,9,0,h3--leaf1>leaf1/leaf1--spine0>spine0/leaf0--spine0>leaf0/"
            "h0--leaf0>h0\n");
}

TEST_F(ReplayFiles, AFlowOfUnknownSizeCannotBeReplayed) {
  flows_.flows[2].bytes.reset();
  const auto text = ReplayOf(plan_, flows_, "f.csv");
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().message,
            "f.csv: flow \"c\" has no bytes (a replay needs the column bytes of every flow)");
}

TEST_F(ReplayFiles, TheLargestFlowsAreDealtOutExactly) {
  flows_.flows[0].bytes = std::numeric_limits<std::int64_t>::max();
  const std::string text = FormatNs3(Replay(), topology_);
  EXPECT_NE(text.find("0,6917529027641081855,0,"), std::string::npos) << text;
  EXPECT_NE(text.find("0,2305843009213693952,1,"), std::string::npos);
}

// Sends two rounds on one path after the other, and the second one moves.
TEST_F(ReplayFiles, ASimulationIsRecordedMessageByMessage) {
  Job job;
  job.id = "J";
  job.epochs = 1;
  const Exchange::Flow flow{*topology_.FindNode("h0"), *topology_.FindNode("h2")};
  job.phases = {{.exchanges = {{.flows = {flow}, .round_bytes = 1'000'000, .rounds = 2}}}};
  const auto workload = Workload::Build(topology_, {job});
  ASSERT_TRUE(workload.has_value()) << workload.error().message;
  ReplayRecorder recorder(*workload);
  const auto over = [&](const char* spine) {
    const std::string name(spine);
    std::vector<std::uint32_t> links = Links({"h0--leaf0", "leaf0--" + name, "leaf1--" + name});
    links.erase(links.begin());
    return std::vector<PathShare>{{.links = links, .share = 1}};
  };
  recorder.Record({0, 1, 1'000'000, over("spine0")});
  recorder.Record({0, 2'000, 1'000'000, over("spine0")});
  recorder.Record({0, 1'002'000, 0, over("spine1")});
  const auto replay = recorder.Take();
  ASSERT_TRUE(replay.has_value());
  EXPECT_EQ(FormatHtsim(*replay, topology_),
            "Nodes 4\n"
            "Connections 2\n"
            "0->2 id 1 start 1000 size 1000000\n"
            "0->2 id 2 start 2000000 size 1000000\n");
  EXPECT_EQ(FormatPathTable(*replay, topology_),
            "connection,flow,from_seconds,path,weight,switches\n"
            "1,J:h0>h2:1,0.000000001,0,1,leaf0/spine0/leaf1\n"
            "2,J:h0>h2:2,0.000002,0,1,leaf0/spine0/leaf1\n"
            "2,J:h0>h2:2,0.001002,0,1,leaf0/spine1/leaf1\n");
  EXPECT_EQ(FormatNs3(*replay, topology_),
            "flow,job,source,destination,start_seconds,bytes,path,links\n"
            "J:h0>h2:1,J,h0,h2,0.000000001,1000000,0,h0--leaf0>leaf0/leaf0--spine0>spine0/"
            "leaf1--spine0>leaf1/h2--leaf1>h2\n"
            "J:h0>h2:2,J,h0,h2,0.000002,1000000,0,h0--leaf0>leaf0/leaf0--spine0>spine0/"
            "leaf1--spine0>leaf1/h2--leaf1>h2\n");
}

}  // namespace
}  // namespace espalier::offline
