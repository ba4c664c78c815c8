// Tests an agent that restarts while a program with flows continues.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/agent/local/local_api_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kGrace = "ESPALIER_AGENT_GRACE_SECONDS";

class AgentRestart : public LocalApi {
 protected:
  void SetUp() override {
    unsetenv(kGrace);
    LocalApi::SetUp();
    agent_ = Connect();
  }
  void TearDown() override {
    espalier_agent_close(agent_);
    LocalApi::TearDown();
  }

  // Lets the program wait for its descriptor and dispatch until the condition holds.
  void Await(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!done() && std::chrono::steady_clock::now() < end) {
      if (server_ != nullptr) Turn();
      pollfd ready{espalier_agent_fd(agent_), POLLIN, 0};
      poll(&ready, 1, 1);
      last_ = espalier_agent_dispatch(agent_);
    }
    EXPECT_TRUE(done());
  }
  void AwaitFlows(std::size_t count) {
    Await([&] { return server_->Flows().size() == count; });
  }
  // Ends the agent like a killed process: its socket file stays.
  void Kill() {
    std::filesystem::rename(path_, path_ + ".kept");
    server_.reset();
    std::filesystem::rename(path_ + ".kept", path_);
    EXPECT_EQ(espalier_agent_dispatch(agent_), 0);
  }

  espalier_agent* agent_ = nullptr;
  int last_ = 0;
};

TEST_F(AgentRestart, KeepsThePortOfALiveFlow) {
  espalier_flow* flow = Open(agent_, Desc("job-a"));
  Turn();
  ASSERT_TRUE(server_->Apply(Set(flow, {50001})));
  espalier_flow_progress(flow, 70, 20, 10, 50001);
  espalier_flow_path_progress(flow, 2, 50007, 5, 6, 7);
  espalier_flow_edges(flow, 3, 1'000'000, 1'000);
  std::atomic<bool> stop = false;
  std::atomic<int> other_ports = 0;
  std::thread sender([&] {
    while (!stop) {
      const espalier_path_set paths = Paths(flow);
      if (paths.path_count != 1 || paths.source_port[0] != 50001) {
        ++other_ports;
      }
    }
  });
  for (int restart = 0; restart < 3; ++restart) {
    Kill();
    EXPECT_EQ(espalier_flow_version(flow), 2u);  // its rate was lifted, once
    EXPECT_EQ(Paths(flow).max_rate_bps, 0u);
    Start({});
    AwaitFlows(1);
    const FlowSample& sample = server_->Flows()[0];
    EXPECT_EQ(sample.id.value(), espalier_flow_id(flow));
    EXPECT_EQ(sample.job, "job-a");
    EXPECT_EQ(sample.source_port, 50001);
    EXPECT_EQ(sample.remaining_bytes, 70u);
    EXPECT_EQ(sample.sent_bytes, 10u);
    EXPECT_EQ(sample.edges.count, 3u);
    EXPECT_EQ(sample.edges.last, TimePoint(std::chrono::milliseconds(1)));
    ASSERT_THAT(sample.ports, SizeIs(1));
    EXPECT_EQ(sample.ports[0].source_port, 50007);
    // Makes the agent report the flow as steered.
    ASSERT_THAT(sample.kept.paths, SizeIs(1));
    EXPECT_EQ(sample.kept.paths[0].source_port, 50001);
    EXPECT_EQ(sample.kept.max_rate_bps, 0u);
  }
  stop = true;
  sender.join();
  EXPECT_EQ(other_ports, 0);
  EXPECT_EQ(last_, 0);
  // The program takes the new agent's path sets like those of the old one.
  ASSERT_TRUE(server_->Apply(Set(flow, {50002})));
  EXPECT_THAT(server_->Flows()[0].kept.paths, IsEmpty());
  EXPECT_TRUE(Readable(agent_));
  EXPECT_EQ(espalier_agent_dispatch(agent_), 0);
  EXPECT_FALSE(Readable(agent_));
  EXPECT_EQ(Paths(flow).source_port[0], 50002);
  EXPECT_EQ(Paths(flow).version, 3u);
}

TEST_F(AgentRestart, FlowsOpenAndEndMeanwhile) {
  espalier_flow* ended = Open(agent_, Desc("ended"));
  espalier_flow* live = Open(agent_, Desc("live"));
  Turn();
  Kill();
  espalier_flow_close(ended);
  espalier_flow* opened = Open(agent_, Desc("opened"));
  Start({});
  AwaitFlows(2);
  EXPECT_EQ(server_->Flows()[0].job, "live");
  EXPECT_EQ(server_->Flows()[1].job, "opened");
  EXPECT_THAT(server_->Flows()[1].kept.paths, IsEmpty());
  EXPECT_EQ(server_->Flows()[1].id.value(), espalier_flow_id(opened));
  ASSERT_TRUE(server_->Apply(Set(opened, {50003})));
  EXPECT_EQ(Paths(opened).source_port[0], 50003);
  EXPECT_EQ(Paths(live).path_count, 0u);
}

TEST_F(AgentRestart, FlowsReturnToEcmpAfterTheGraceTime) {
  espalier_agent_close(agent_);
  setenv(kGrace, "1", 1);
  agent_ = Connect();
  unsetenv(kGrace);
  espalier_flow* flow = Open(agent_);
  Turn();
  ASSERT_TRUE(server_->Apply(Set(flow, {50001})));
  Kill();
  EXPECT_EQ(Paths(flow).source_port[0], 50001);
  Await([&] { return last_ != 0; });
  EXPECT_EQ(last_, -EPIPE);
  EXPECT_EQ(Paths(flow).path_count, 0u);
  EXPECT_EQ(Paths(flow).version, 3u);
  Await([&] { return Readable(agent_); });  // and stays so
  EXPECT_EQ(espalier_agent_dispatch(agent_), -EPIPE);
}

TEST_F(AgentRestart, AnAgentThatRefusesTheProgramCountsAsAbsent) {
  espalier_agent_close(agent_);
  setenv(kGrace, "1", 1);
  agent_ = Connect();
  unsetenv(kGrace);
  espalier_flow* flow = Open(agent_);
  Turn();
  ASSERT_TRUE(server_->Apply(Set(flow, {50001})));
  Kill();
  Start({.max_clients = 1});
  espalier_agent* other = Connect();
  Await([&] { return last_ != 0; });
  EXPECT_EQ(Paths(flow).path_count, 0u);
  espalier_agent_close(other);
}

// A program that claims path sets that no agent gave it can only choose its own ports.
TEST_F(AgentRestart, WhatAProgramClaimsToHaveKeptIsChecked) {
  auto memory = SlotMemory::Make();
  ASSERT_TRUE(memory);
  auto* const file = static_cast<espalier_local_memory*>(mmap(
      nullptr, sizeof(espalier_local_memory), PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd(), 0));
  ASSERT_NE(file, MAP_FAILED);
  auto& set = file->slots[0].paths.set;
  set.serial = 7;
  set.path_count = ESPALIER_MAX_PATHS + 1;
  EXPECT_THAT(memory->ReadKept(0, 7).paths, IsEmpty());
  set.path_count = 2;
  set.source_port[0] = 50001;
  EXPECT_THAT(memory->ReadKept(0, 7).paths, IsEmpty());  // the second has no port
  set.source_port[1] = 50002;
  EXPECT_THAT(memory->ReadKept(0, 7).paths, SizeIs(2));
  EXPECT_THAT(memory->ReadKept(0, 8).paths, IsEmpty());  // of another flow
  munmap(file, sizeof(*file));
}

TEST_F(LocalApi, JobIsOfTheProgramsOwnEnvironmentWhereItGivesNone) {
  // /proc shows this process's initial environment only.
  setenv("SLURM_JOB_ID", "4711", 1);
  espalier_agent* batch = Connect();
  setenv("ESPALIER_JOB", "of-the-environment", 1);
  espalier_agent* named = Connect();
  setenv("ESPALIER_JOB", std::string(ESPALIER_JOB_BYTES, 'x').c_str(), 1);
  espalier_agent* too_long = Connect();
  unsetenv("ESPALIER_JOB");
  unsetenv("SLURM_JOB_ID");
  Open(batch);
  Open(named);
  Open(named, Desc("of-the-program"));
  Open(too_long);
  Turn();
  ASSERT_THAT(server_->Flows(), SizeIs(4));
  EXPECT_EQ(server_->Flows()[0].job, "4711");
  EXPECT_EQ(server_->Flows()[1].job, "of-the-environment");
  EXPECT_EQ(server_->Flows()[2].job, "of-the-program");
  EXPECT_EQ(server_->Flows()[3].job, "4711");
  for (espalier_agent* agent : {batch, named, too_long}) espalier_agent_close(agent);
}

}  // namespace
}  // namespace espalier::agent
