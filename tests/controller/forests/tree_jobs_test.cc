#include "controller/forests/tree_jobs.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "collective/program/program_bytes.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

// Hosts are fast, so that what is between the leaves decides.
constexpr fabric::LeafSpineOptions kShape{.spines = 4,
                                          .leaves = 4,
                                          .hosts_per_leaf = 2,
                                          .host_rate = BitsPerSecond{800'000'000'000},
                                          .fabric_rate = BitsPerSecond{100'000'000'000}};

class TreeJobsTest : public testing::Test {
 protected:
  static ControllerOptions Options() {
    ControllerOptions options;
    options.fabric_hashes_protocol = false;  // what UDP probes learn holds for TCP
    options.verify_interval = {};
    return options;
  }
  explicit TreeJobsTest(ControllerOptions options = Options()) : cluster_(kShape, options) {
    cluster_.ConnectAll();
  }

  static JobSpec Spec(const std::string& name = "train", int ranks = 8) {
    JobSpec spec{.name = name, .ranks = {}};
    for (int i = 0; i < ranks; ++i) spec.ranks.push_back("h" + std::to_string(i));
    return spec;
  }
  const TreeJob& JobOf(const std::string& name = "train") {
    return cluster_.controller().jobs().all().at(name);
  }
  JobStatus StatusOf(const std::string& name = "train") {
    return cluster_.controller().jobs().StatusOf(JobOf(name));
  }
  void Start(const JobSpec& spec) {
    const auto started = cluster_.StartJob(spec);
    ASSERT_TRUE(started.has_value()) << started.error().message;
    cluster_.Settle();
    ASSERT_EQ(StatusOf(spec.name), JobStatus::kReady);
  }
  // Every edge of what the agents hold is on the spine that the forest has for it.
  void ExpectPlannedSpines(const std::string& name = "train") {
    const TreeJob& job = JobOf(name);
    int crossing = 0;
    for (std::size_t i = 0; i < job.in_force->ports.size(); ++i) {
      const TreeEdge& edge = job.in_force->forest->edges[i];
      const auto& plan =
          cluster_.host(edge.from).plans.at({name, static_cast<std::uint32_t>(edge.from)});
      EXPECT_EQ(plan.version, job.in_force->version);
      if (!edge.crossing) continue;
      ++crossing;
      std::uint16_t port = 0;
      for (const wire::PeerPorts& peer : plan.peers) {
        if (peer.rank != static_cast<std::uint32_t>(edge.to)) continue;
        EXPECT_EQ(peer.address, cluster_.Address(edge.to));
        for (std::size_t c = 0; c < peer.channels.size(); ++c) {
          if (peer.channels[c] == static_cast<std::uint32_t>(edge.channel)) {
            port = peer.source_ports[c];
          }
        }
      }
      EXPECT_EQ(port, job.in_force->ports[i]);
      EXPECT_EQ(cluster_.SpineOf(edge.from, edge.to, port), edge.crossing->path.value())
          << edge.from << " to " << edge.to << " channel " << edge.channel << " port " << port;
    }
    EXPECT_GT(crossing, 0);
  }
  std::set<std::pair<fabric::PortKey, std::uint16_t>> PortsInForce() {
    std::set<std::pair<fabric::PortKey, std::uint16_t>> ports;
    const JobPlan& plan = *JobOf().in_force;
    for (std::size_t i = 0; i < plan.ports.size(); ++i) {
      const auto key = cluster_.controller().jobs().KeyOf(plan, plan.forest->edges[i]);
      if (plan.ports[i] != 0) ports.emplace(key, plan.ports[i]);
    }
    return ports;
  }
  std::size_t FlowsOfTrees() {
    std::size_t count = 0;
    for (const FlowSlot slot : cluster_.state().flows.All()) {
      count += cluster_.state().flows.At(slot).tree_load != 0 ? 1 : 0;
    }
    return count;
  }

  Cluster cluster_;
};

TEST_F(TreeJobsTest, GivesEveryRankItsPlanWithPortsThatTakeTheForestsPaths) {
  JobSpec spec = Spec();
  spec.offload = true;
  Start(spec);
  ExpectPlannedSpines();
  const wire::RankPlan& plan = cluster_.host(3).plans.at({"train", 3});
  EXPECT_EQ(plan.ranks, 8U);
  EXPECT_EQ(plan.address, cluster_.Address(3));
  EXPECT_EQ(plan.listen_port, wire::kRoceV2Port);
  EXPECT_TRUE(plan.offload);
  const auto program = program::DecodeProgram(plan.program);
  ASSERT_TRUE(program.has_value());
  EXPECT_TRUE(*program == JobOf().in_force->forest->program);
}

// RoCE goes to one port, whatever the ranks meet at.
TEST_F(TreeJobsTest, PlansForRdmaArePortsOfRoce) {
  Start(Spec("other"));
  JobSpec spec = Spec();
  spec.verbs = true;
  Start(spec);
  ExpectPlannedSpines();
  EXPECT_TRUE(cluster_.host(3).plans.at({"train", 3}).verbs);
  EXPECT_FALSE(cluster_.host(3).plans.at({"other", 3}).verbs);
  EXPECT_NE(cluster_.host(3).plans.at({"train", 3}).listen_port, wire::kRoceV2Port);
  const JobPlan& plan = *JobOf().in_force;
  for (const TreeEdge& edge : plan.forest->edges) {
    const auto key = cluster_.controller().jobs().KeyOf(plan, edge);
    EXPECT_EQ(key.destination_port, wire::kRoceV2Port);
    EXPECT_EQ(key.protocol, wire::kProtocolUdp);
  }
}

TEST_F(TreeJobsTest, EntersTheEdgesIntoTheFlowTablePinnedAndWeighted) {
  Start(Spec());
  EXPECT_EQ(FlowsOfTrees(), JobOf().in_force->flows.size());
  // All links are in use all of the time while the job runs: the load of one flow on each.
  for (std::size_t i = 0; i < cluster_.state().topology.links().size(); ++i) {
    const fabric::LinkId link(static_cast<std::int32_t>(i));
    if (!cluster_.state().topology.IsSwitchToSwitch(link)) continue;
    const auto load =
        cluster_.state().flow_paths.live().LoadOf(fabric::DirectedLink{link, true}.Index());
    EXPECT_NEAR(static_cast<double>(load) / static_cast<double>(kLoadUnit), 1, 0.01);
  }
  ASSERT_TRUE(cluster_.StopJob("train").has_value());
  EXPECT_EQ(FlowsOfTrees(), 0U);
  for (const std::int64_t load : cluster_.state().flow_paths.live().Loads()) EXPECT_EQ(load, 0);
}

TEST_F(TreeJobsTest, OtherFlowsKeepAwayFromTreesAndTreesFromThem) {
  cluster_.Open(0, {{.id = 1, .to = 4}});
  cluster_.Settle();
  const int spine = cluster_.AppliedSpine(0, 1, 4);
  JobSpec spec = Spec("pair", 0);
  spec.ranks = {"h1", "h5"};  // of the same leaves as the flow
  Start(spec);
  const auto on_spine = [&](int wanted) {
    std::int64_t chunks = 0;
    for (const TreeEdge& edge : JobOf("pair").in_force->forest->edges) {
      const bool same_way = edge.from == 0;
      if (same_way && edge.crossing->path.value() == wanted) chunks += edge.chunks;
    }
    return chunks;
  };
  for (int other = 0; other < 4; ++other) {
    EXPECT_GE(on_spine(other), on_spine(spine)) << other;
  }
  // What starts now finds trees and flow, and takes what has least.
  cluster_.Open(1, {{.id = 2, .to = 5}});
  cluster_.Settle();
  EXPECT_NE(cluster_.AppliedSpine(1, 2, 5), spine);
}

TEST_F(TreeJobsTest, AFailedLinkBringsANewPlanOnPortsThatNoOldConnectionHas) {
  Start(Spec());
  const auto before = PortsInForce();
  const std::uint64_t version = JobOf().in_force->version;
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  cluster_.Advance(1s);
  ASSERT_EQ(StatusOf(), JobStatus::kReady) << JobOf().problem;
  EXPECT_GT(JobOf().in_force->version, version);
  ExpectPlannedSpines();
  for (const auto& port : PortsInForce()) EXPECT_FALSE(before.contains(port));
  EXPECT_EQ(FlowsOfTrees(), JobOf().in_force->flows.size());
  for (const bool forward : {true, false}) {
    const auto link = *cluster_.state().topology.FindLink("leaf1--spine2");
    const fabric::DirectedLink direction{link, forward};
    EXPECT_EQ(cluster_.state().flow_paths.live().LoadOf(direction.Index()), 0);
  }
  // After a rest the old ports may be chosen again.
  cluster_.Advance(3min);
  for (const auto& [key, port] : before)
    EXPECT_FALSE(cluster_.state().flow_paths.ports().IsTaken(key, port));
}

// What comes back on a connection goes by the fabric's choice: not over the dead link either.
TEST_F(TreeJobsTest, WhileALinkIsDeadPortsAreTakenWhoseWayBackIsAlive) {
  Start(Spec());
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine2", IntentAction::kFail).has_value());
  cluster_.Advance(1s);
  ASSERT_EQ(StatusOf(), JobStatus::kReady) << JobOf().problem;
  ExpectPlannedSpines();
  int near = 0;
  for (std::size_t i = 0; i < JobOf().in_force->ports.size(); ++i) {
    const TreeEdge& edge = JobOf().in_force->forest->edges[i];
    if (!edge.crossing || (edge.from / 2 != 1 && edge.to / 2 != 1)) continue;
    ++near;
    EXPECT_NE(cluster_.SpineBack(edge.to, edge.from, JobOf().in_force->ports[i]), 2);
  }
  EXPECT_GT(near, 0);
}

// Two ranks: a chain of one edge each way, whose way there and way back are told apart.
class AnswersTest : public TreeJobsTest {
 protected:
  // Spines that ways there take, and ways back.
  std::pair<std::set<int>, std::set<int>> Spines() {
    std::pair<std::set<int>, std::set<int>> spines;
    const JobPlan& plan = *JobOf().in_force;
    for (std::size_t i = 0; i < plan.ports.size(); ++i) {
      if (plan.ports[i] == 0) continue;
      const int from = HostOf(plan.edge(i).from);
      const int to = HostOf(plan.edge(i).to);
      spines.first.insert(cluster_.SpineOf(from, to, plan.ports[i]));
      spines.second.insert(cluster_.SpineBack(to, from, plan.ports[i]));
    }
    return spines;
  }
  static int HostOf(std::int32_t rank) { return rank == 0 ? 0 : 2; }  // of leaf 0 and leaf 1
  // A forest that leaves spines aside: other links are drained while it is made.
  void StartOnOneSpine(bool verbs = false) {
    for (const char* link : {"leaf0--spine1", "leaf0--spine2", "leaf0--spine3"}) {
      ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kDrain).has_value());
    }
    JobSpec spec = Spec("train", 0);
    spec.ranks = {"h0", "h2"};
    spec.verbs = verbs;
    Start(spec);
    for (const char* link : {"leaf0--spine1", "leaf0--spine2", "leaf0--spine3"}) {
      ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kUndrain).has_value());
    }
    cluster_.Advance(1s);
  }
};

TEST_F(AnswersTest, ALinkThatOnlyTheWayBackTakesBringsAnUrgentPlanWithOtherPorts) {
  StartOnOneSpine();
  const auto before = PortsInForce();
  const auto forest = JobOf().in_force->forest;
  const std::uint64_t version = JobOf().in_force->version;
  const auto [there, back] = Spines();
  const int spine = there.contains(*back.begin()) ? *back.rbegin() : *back.begin();
  ASSERT_FALSE(there.contains(spine));
  // A link of other leaves changes nothing.
  const std::string name = "spine" + std::to_string(spine);
  ASSERT_TRUE(cluster_.ChangeLink("leaf3--" + name, IntentAction::kFail).has_value());
  cluster_.Advance(2s);
  ASSERT_EQ(JobOf().in_force->version, version);
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--" + name, IntentAction::kFail).has_value());
  cluster_.Advance(2s);
  ASSERT_EQ(StatusOf(), JobStatus::kReady) << JobOf().problem;
  EXPECT_GT(JobOf().in_force->version, version);
  EXPECT_TRUE(cluster_.host(0).plans.at({"train", 0}).urgent);
  EXPECT_TRUE(*JobOf().in_force->forest == *forest);
  for (const auto& port : PortsInForce()) EXPECT_FALSE(before.contains(port));
  EXPECT_FALSE(Spines().second.contains(spine));
  // Nothing more comes of it, nor of its end.
  const std::uint64_t after = JobOf().in_force->version;
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--" + name, IntentAction::kRestore).has_value());
  cluster_.Advance(5s);
  EXPECT_EQ(JobOf().in_force->version, after);
}

// A link that no way takes, there or back: the answers of the probes say so.
TEST_F(AnswersTest, ALinkThatNoWayTakesChangesNothing) {
  StartOnOneSpine();
  const std::uint64_t version = JobOf().in_force->version;
  const auto [there, back] = Spines();
  int spine = 0;
  while (there.contains(spine) || back.contains(spine)) ++spine;
  ASSERT_LT(spine, 4);
  // Twice: what the first look has seen is in doubt by the second.
  for (const char* leaf : {"leaf0--spine", "leaf1--spine"}) {
    const std::string link = leaf + std::to_string(spine);
    ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kFail).has_value());
    cluster_.Advance(2s);
    EXPECT_EQ(JobOf().in_force->version, version) << link;
  }
}

TEST_F(TreeJobsTest, ADrainedLinkIsLeftAndARestoredOneIsTakenByRecompute) {
  Start(Spec());
  const auto forest = JobOf().in_force->forest;
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine2", IntentAction::kDrain).has_value());
  cluster_.Advance(1s);
  EXPECT_FALSE(*JobOf().in_force->forest == *forest);
  const std::uint64_t version = JobOf().in_force->version;
  ASSERT_TRUE(cluster_.ChangeLink("leaf1--spine2", IntentAction::kUndrain).has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(JobOf().in_force->version, version);
  const auto recomputed = cluster_.Recompute();
  ASSERT_TRUE(recomputed.has_value());
  EXPECT_EQ(recomputed->forests, 1U);
  cluster_.Advance(1s);
  EXPECT_TRUE(*JobOf().in_force->forest == *forest);
  ExpectPlannedSpines();
}

TEST_F(TreeJobsTest, ASecondRecomputeChangesNothing) {
  Start(Spec());
  const std::uint64_t version = JobOf().in_force->version;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(cluster_.Recompute().has_value());
    cluster_.Advance(1s);
  }
  EXPECT_EQ(JobOf().in_force->version, version);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
}

// Leaf 0 has only spine 0 and leaf 1 only spine 1: what they send each other goes over other ranks.
TEST_F(TreeJobsTest, IsNotStuckWhereTwoLeavesShareNoSpine) {
  Start(Spec());
  for (const char* link : {"leaf0--spine1", "leaf0--spine2", "leaf0--spine3", "leaf1--spine0",
                           "leaf1--spine2", "leaf1--spine3"}) {
    ASSERT_TRUE(cluster_.ChangeLink(link, IntentAction::kFail).has_value());
    cluster_.Advance(1s);
    ASSERT_EQ(StatusOf(), JobStatus::kReady) << link << ": " << JobOf().problem;
  }
  ExpectPlannedSpines();
  for (const TreeEdge& edge : JobOf().in_force->forest->edges) {
    EXPECT_FALSE(edge.from / 2 + edge.to / 2 == 1) << edge.from << " to " << edge.to;
  }
  // A new one can be started, too.
  Start(Spec("other", 6));
}

TEST_F(TreeJobsTest, KeepsItsPlanWhereThereIsNoForestAndGoesOnWhenThereIs) {
  Start(Spec());
  ASSERT_TRUE(cluster_.ChangeNode("leaf1", IntentAction::kFail).has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(StatusOf(), JobStatus::kStuck);
  EXPECT_NE(JobOf().problem, "");
  EXPECT_TRUE(JobOf().in_force.has_value());
  ASSERT_TRUE(cluster_.ChangeNode("leaf1", IntentAction::kRestore).has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
}

class VerifyingTreeJobsTest : public TreeJobsTest {
 protected:
  static ControllerOptions Verifying() {
    ControllerOptions options = Options();
    options.verify_interval = 100ms;
    return options;
  }
  VerifyingTreeJobsTest() : TreeJobsTest(Verifying()) {}
};

TEST_F(VerifyingTreeJobsTest, APortThatLeadsElsewhereIsReplaced) {
  Start(Spec());
  const std::uint64_t version = JobOf().in_force->version;
  const auto& edges = JobOf().in_force->forest->edges;
  const auto edge = *std::find_if(edges.begin(), edges.end(),
                                  [](const TreeEdge& each) { return each.crossing.has_value(); });
  cluster_.hash = [hash = cluster_.hash, edge](int from, int to, std::uint16_t port) {
    const bool changed = from == edge.from && to == edge.to;
    return (hash(from, to, port) + (changed ? 1 : 0)) % 4;
  };
  cluster_.Advance(60s);
  EXPECT_GT(JobOf().in_force->version, version);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
  ExpectPlannedSpines();
}

TEST_F(TreeJobsTest, SurvivesARestartOfTheController) {
  Start(Spec());
  const std::uint64_t version = JobOf().in_force->version;
  cluster_.RestartController();
  cluster_.ConnectAll();
  cluster_.Advance(3s);
  ASSERT_EQ(StatusOf(), JobStatus::kReady);
  EXPECT_GT(JobOf().in_force->version, version);
  ExpectPlannedSpines();
}

TEST_F(TreeJobsTest, AnAgentThatComesBackGetsItsPlansAndNoOthers) {
  Start(Spec());
  Start(Spec("short", 3));
  EXPECT_EQ(cluster_.host(1).plans.at({"short", 1}).listen_port, wire::kRoceV2Port + 1);
  cluster_.host(1).peer = PeerId(0);  // hears nothing any more
  cluster_.Advance(4s);
  ASSERT_TRUE(cluster_.StopJob("short").has_value());
  EXPECT_EQ(cluster_.host(1).plans.size(), 2U);
  cluster_.Connect(1);
  cluster_.Advance(3s);
  EXPECT_EQ(cluster_.host(1).plans.size(), 1U);
  EXPECT_TRUE(cluster_.host(1).plans.contains({"train", 1}));
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
  EXPECT_EQ(cluster_.host(0).plans.size(), 1U);
}

TEST_F(TreeJobsTest, ALostPushGoesAgain) {
  cluster_.host(2).acknowledges = false;
  ASSERT_TRUE(cluster_.StartJob(Spec()).has_value());
  cluster_.Settle();
  EXPECT_EQ(StatusOf(), JobStatus::kPushing);
  EXPECT_EQ(UnacknowledgedRanks(cluster_.state(), JobOf()), std::vector<std::uint32_t>{2});
  cluster_.host(2).acknowledges = true;
  cluster_.Advance(3s);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
  ExpectPlannedSpines();
}

TEST_F(TreeJobsTest, WhatCannotBeStartedIsRefusedAndChangesNothing) {
  const auto refusal = [&](const JobSpec& spec) {
    const auto started = cluster_.StartJob(spec);
    EXPECT_FALSE(started.has_value());
    return started ? Error{} : started.error();
  };
  JobSpec unknown = Spec();
  unknown.ranks.push_back("h99");
  EXPECT_EQ(refusal(unknown).message, "there is no node \"h99\" to be a rank");
  JobSpec twice = Spec();
  twice.ranks.push_back("h0");
  EXPECT_EQ(refusal(twice).message, "h0 is named twice as a rank");
  JobSpec of_switches = Spec();
  of_switches.ranks.push_back("leaf0");
  EXPECT_EQ(refusal(of_switches).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(Spec("one", 1)).message, "a job has two ranks or more, not 1");
  EXPECT_EQ(refusal(Spec("", 2)).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(Spec("a\nb", 2)).code, ErrorCode::kInvalidArgument);

  cluster_.host(5).peer = PeerId(0);
  cluster_.Advance(4s);
  EXPECT_EQ(refusal(Spec()).message, "rank 5 (h5): agent h5 is not connected");
  cluster_.host(5).features = {"probe"};
  cluster_.Connect(5);
  EXPECT_EQ(refusal(Spec()).message,
            "rank 5 (h5): agent h5 does not know \"collective\" (upgrade it, or look into its "
            "configuration)");
  ASSERT_TRUE(cluster_.ChangeNode("leaf1", IntentAction::kFail).has_value());
  EXPECT_EQ(refusal(Spec("cut", 4)).code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(cluster_.StopJob("train").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(cluster_.state().intents.jobs.empty());
  EXPECT_TRUE(cluster_.controller().jobs().all().empty());
  EXPECT_EQ(cluster_.disk.audit.back().result, AuditResult::kRefused);
}

TEST_F(TreeJobsTest, ANameIsTakenOnce) {
  Start(Spec());
  EXPECT_EQ(cluster_.StartJob(Spec()).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(cluster_.StartJob(Spec("train", 4)).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(JobOf().ranks.size(), 8U);
}

TEST_F(TreeJobsTest, ADryRunStartsNothing) {
  EXPECT_TRUE(cluster_.StartJob(Spec(), {.dry_run = true}).has_value());
  EXPECT_TRUE(cluster_.controller().jobs().all().empty());
}

TEST_F(TreeJobsTest, ARollbackEndsAndBringsBackJobs) {
  Start(Spec());
  ASSERT_TRUE(cluster_.RollBack(0).has_value());
  cluster_.Settle();
  EXPECT_TRUE(cluster_.controller().jobs().all().empty());
  EXPECT_TRUE(cluster_.host(0).plans.empty());
  ASSERT_TRUE(cluster_.RollBack(1).has_value());
  cluster_.Advance(1s);
  EXPECT_EQ(StatusOf(), JobStatus::kReady);
}

TEST_F(TreeJobsTest, ListenPortsStayWithTheirJobsOverARestart) {
  JobSpec first = Spec("first", 0);
  first.ranks = {"h0", "h2"};
  JobSpec second = Spec("second", 0);
  second.ranks = {"h4", "h0"};
  JobSpec before_both = Spec("a", 0);  // which comes first by its name
  before_both.ranks = {"h0", "h6"};
  for (const JobSpec& spec : {first, second, before_both}) Start(spec);
  ASSERT_TRUE(cluster_.StopJob("first").has_value());
  cluster_.RestartController();
  cluster_.ConnectAll();
  cluster_.Advance(1s);
  Start(first);
  const auto port_on_h0 = [&](const std::string& job, std::uint32_t rank) {
    return cluster_.host(0).plans.at({job, rank}).listen_port;
  };
  EXPECT_EQ(port_on_h0("first", 0), wire::kRoceV2Port);
  EXPECT_EQ(port_on_h0("second", 1), wire::kRoceV2Port + 1);
  EXPECT_EQ(port_on_h0("a", 0), wire::kRoceV2Port + 2);
  EXPECT_EQ(JobOf("second").in_force->listens, JobOf("second").listens);
}

// An older version stored no ports.
TEST_F(TreeJobsTest, JobsThatWereStoredWithoutPortsKeepOffStoredOnes) {
  Start(Spec("new"));
  Start(Spec("old"));
  Intent& old = cluster_.disk.sets.at(cluster_.disk.revision).first.jobs.at("old");
  old.detail = FormatStoredJob({Spec("old"), {}});
  cluster_.disk.sets.at(cluster_.disk.revision).first.jobs["a"] = old;
  cluster_.RestartController();
  cluster_.ConnectAll();
  cluster_.Advance(1s);
  std::set<std::uint16_t> ports;
  for (const char* name : {"a", "new", "old"}) {
    EXPECT_EQ(StatusOf(name), JobStatus::kReady);
    ports.insert(cluster_.host(0).plans.at({name, 0}).listen_port);
  }
  EXPECT_EQ(ports.size(), 3U);
  EXPECT_EQ(cluster_.host(0).plans.at({"new", 0}).listen_port, wire::kRoceV2Port);
}

TEST(StoredJob, IsReadAsItWasWritten) {
  const StoredJob job{.spec = {.name = "train",
                               .ranks = {"h 0", "h1"},
                               .collective = forest::Collective::kAllreduce,
                               .bytes = 7,
                               .offload = true},
                      .listens = {4'791, 65'535}};
  EXPECT_EQ(FormatStoredJob(job), "allreduce 7 offload 4791 65535\nh 0\nh1\n");
  EXPECT_EQ(ParseStoredJob("train", FormatStoredJob(job)).value(), job);
  const auto without = ParseStoredJob("train", "allreduce 7 offload\nh 0\nh1\n");
  ASSERT_TRUE(without.has_value());
  EXPECT_EQ(*without, (StoredJob{job.spec, {}}));
  for (const char* text :
       {"", "allreduce\n", "allreduce x inline\nh0\n", "none 0 inline\nh0\n",
        "allreduce 0 inline 1\nh0\nh1\n", "allreduce 0 inline 1 2 3\nh0\nh1\n",
        "allreduce 0 inline 1 0\nh0\nh1\n", "allreduce 0 inline 1 65536\nh0\nh1\n",
        "allreduce 0 inline 1  2\nh0\nh1\n", "allreduce 0 inline 1 -2\nh0\nh1\n"}) {
    EXPECT_EQ(ParseStoredJob("train", text).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST_F(TreeJobsTest, TakesReportsOfItsRanksOnly) {
  Start(Spec());
  cluster_.Deliver(cluster_.host(2).peer, cluster_.host(2).instance,
                   wire::CollectiveReport{.job = "train",
                                          .rank = 2,
                                          .sequence = 7,
                                          .collective = "allreduce",
                                          .bytes = 1'000,
                                          .duration_us = 90});
  EXPECT_EQ(JobOf().collectives, 7U);
  cluster_.Deliver(cluster_.host(2).peer, cluster_.host(2).instance,
                   wire::CollectiveReport{.job = "train", .rank = 3, .sequence = 8});
  EXPECT_EQ(JobOf().collectives, 7U);
  EXPECT_EQ(cluster_.CounterValue("espalier_controller_bad_messages_total"), 1);
  cluster_.Deliver(cluster_.host(2).peer, cluster_.host(2).instance,
                   wire::CollectiveReport{.job = "train", .rank = 2, .error = "timed out"});
  EXPECT_EQ(JobOf().last_failure, "rank 2: timed out");
}

// Work that is done when the test says so.
struct Aside {
  std::deque<std::pair<std::function<void()>, std::function<void()>>> waiting;
  void RunOne() {
    const auto [work, done] = std::move(waiting.front());
    waiting.pop_front();
    work();
    done();
  }
};

TEST(TreeJobsAside, AForestThatAChangeOvertookIsDropped) {
  Aside aside;
  ControllerOptions options{.fabric_hashes_protocol = false, .plan_ahead = false};
  options.background = [&](auto work, auto done) {
    aside.waiting.emplace_back(std::move(work), std::move(done));
  };
  Cluster cluster(kShape, options);
  cluster.ConnectAll();
  JobSpec spec{.name = "train", .ranks = {"h0", "h2", "h4", "h6"}};
  std::optional<Result<ActionOutcome>> started;
  cluster.controller().actions().StartJob(spec, {}, [&](auto outcome) { started = outcome; });
  cluster.Settle();
  EXPECT_FALSE(started.has_value());
  aside.RunOne();
  cluster.Settle();
  ASSERT_TRUE(started.has_value() && *started);
  const TreeJob& job = cluster.controller().jobs().all().at("train");
  ASSERT_TRUE(job.in_force.has_value());

  ASSERT_TRUE(cluster.ChangeLink("leaf0--spine0", IntentAction::kFail).has_value());
  ASSERT_TRUE(cluster.ChangeLink("leaf1--spine1", IntentAction::kFail).has_value());
  ASSERT_EQ(aside.waiting.size(), 2U);
  EXPECT_EQ(cluster.controller().jobs().StatusOf(job), JobStatus::kPlanning);
  aside.RunOne();
  EXPECT_EQ(cluster.CounterValue("espalier_controller_forests_dropped_total"), 1);
  EXPECT_EQ(cluster.controller().jobs().StatusOf(job), JobStatus::kPlanning);
  aside.RunOne();
  cluster.Advance(1s);
  EXPECT_EQ(cluster.controller().jobs().StatusOf(job), JobStatus::kReady);

  // One of a job that has ended meanwhile.
  ASSERT_TRUE(cluster.ChangeLink("leaf2--spine0", IntentAction::kFail).has_value());
  ASSERT_TRUE(cluster.StopJob("train").has_value());
  aside.RunOne();
  EXPECT_EQ(cluster.CounterValue("espalier_controller_forests_dropped_total"), 2);
}

}  // namespace
}  // namespace espalier::controller
