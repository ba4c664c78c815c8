// Tests the listen ports of ranks.
#include "controller/forests/listen_ports.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/controller/forests/running_jobs.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class ListenPortsTest : public RunningJobs {};

TEST_F(ListenPortsTest, ListenPortsStayWithTheirJobsOverARestart) {
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
  EXPECT_EQ(JobOf("second").active->listen_ports, JobOf("second").listen_ports);
}

// An older version stored no ports.
TEST_F(ListenPortsTest, JobsStoredWithoutPortsAvoidStoredOnes) {
  Start(Spec("new"));
  Start(Spec("old"));
  IntentById& jobs = cluster_.disk.sets.at(cluster_.disk.revision).first.jobs;
  jobs["old"].value = StartedJob{Spec("old"), {}};
  jobs["a"] = jobs["old"];
  jobs["a"].value = StartedJob{Spec("a"), {}};
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

// Three jobs with no more than their ranks and ports.
TEST(ListenPorts, AreTheLowestThatNoOtherJobHasOnTheSameHost) {
  const fabric::Topology topology = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 1, .leaves = 1, .hosts_per_leaf = 3}));
  const auto node = [&](const char* id) { return *topology.FindNode(id); };
  constexpr std::uint16_t kFirst = wire::kRoceV2Port;
  TreeJobTable jobs;
  for (const char* const name : {"a", "b"}) jobs.emplace(name, TreeJob{.key = JobKey::Draw()});
  jobs.at("a").ranks = {node("h0"), node("h1")};
  jobs.at("a").listen_ports = {kFirst, kFirst};
  jobs.at("b").ranks = {node("h0"), node("h2")};
  jobs.at("b").active.emplace().listen_ports = {kFirst + 2, kFirst};
  jobs.at("b").next.emplace().listen_ports = {kFirst + 1, kFirst};
  const auto choose = [&](const char* name) {
    return ChooseListenPorts(topology, jobs, {.name = name, .ranks = {"h0", "h1", "h2"}});
  };
  EXPECT_EQ(choose("c"), (std::vector<std::uint16_t>{kFirst + 3, kFirst + 1, kFirst + 1}));
  // The job's own ports do not count.
  EXPECT_EQ(choose("a"), (std::vector<std::uint16_t>{kFirst, kFirst, kFirst + 1}));
}

}  // namespace
}  // namespace espalier::controller
