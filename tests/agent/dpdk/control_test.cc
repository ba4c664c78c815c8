// Tests the control thread's half of the datapath against an agent's server, and its configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "agent/dpdk/configuration.h"
#include "tests/agent/dpdk/control_fixture.h"
#include "tests/temporary_folder.h"

namespace espalier::dpdk {
namespace {

using ::testing::HasSubstr;

TEST_F(Control, OpensFlowsAtTheAgentAndGivesThemItsPorts) {
  OpenAgent();
  TickUntilConnected();
  EXPECT_EQ(Send(First(0x20)), 50'000);
  Tick();
  const std::vector<agent::FlowSample> flows = AgentFlows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].source.ToString(), "10.0.0.1");
  EXPECT_EQ(flows[0].destination.ToString(), "10.0.1.1");
  EXPECT_EQ(flows[0].remote_qpn, 0x20U);
  EXPECT_EQ(flows[0].source_port, 50'000);
  EXPECT_EQ(flows[0].remaining_bytes, 8U << 20);
  ASSERT_TRUE(agent_->Apply({.flow = flows[0].id, .paths = {{.source_port = 61'001}}}));
  Tick();
  EXPECT_EQ(Send(Middle(0x20, 1)), 61'001);
  EXPECT_EQ(Send(Middle(0x20, 2)), 61'001);
  Tick();
  EXPECT_EQ(AgentFlows()[0].sent_bytes, 2048U);
  EXPECT_EQ(AgentFlows()[0].source_port, 61'001);
  ASSERT_TRUE(agent_->Clear(flows[0].id));
  Tick();
  EXPECT_EQ(Send(Middle(0x20, 3)), 50'000);
  // The flow also ends for the agent, some time after its last packet.
  Tick();
  Tick(std::chrono::seconds(301));
  Serve();
  EXPECT_EQ(AgentFlows().size(), 0U);
  EXPECT_EQ(control_.flows(), 0U);
}

TEST_F(Control, GoesOnWithoutAnAgentAndWithTheNextOne) {
  Send(First(0x20));
  Tick();
  EXPECT_EQ(control_.flows(), 1U);
  EXPECT_EQ(Metric("espalier_dpdk_agent_connected"), 0);
  for (const std::uint16_t port : {std::uint16_t{61'001}, std::uint16_t{61'002}}) {
    OpenAgent();
    TickUntilConnected();
    Tick();
    Send(Middle(0x20, 1));
    const std::vector<agent::FlowSample> flows = AgentFlows();
    ASSERT_EQ(flows.size(), 1U);
    ASSERT_TRUE(agent_->Apply({.flow = flows[0].id, .paths = {{.source_port = port}}}));
    Tick();
    EXPECT_EQ(Send(Middle(0x20, 1)), port);
    agent_.reset();
    Tick();
    EXPECT_EQ(Send(Middle(0x20, 1)), 50'000) << "nobody answers for the port any more";
    EXPECT_EQ(control_.flows(), 1U);
  }
}

TEST_F(Control, LetsFlowsBeyondAFullTablePass) {
  for (std::uint32_t qpn = 0x20; qpn < 0x26; ++qpn) Send(First(qpn));
  Tick();
  EXPECT_EQ(control_.flows(), kMaxFlows);
  EXPECT_EQ(Metric("espalier_dpdk_flows_refused_total"), 2);
  for (std::uint32_t qpn = 0x20; qpn < 0x26; ++qpn) EXPECT_EQ(Send(Middle(qpn, 1)), 50'000);
  // There is room when others have ended.
  Tick();
  Tick(std::chrono::seconds(301));
  EXPECT_EQ(control_.flows(), 0U);
  Tick();
  Send(First(0x25));
  Tick();
  EXPECT_EQ(control_.flows(), 1U);
  EXPECT_EQ(Metric("espalier_dpdk_flows_refused_total"), 2);
}

TEST_F(Control, TheLongestIdleFlowMakesRoomInAFullTable) {
  for (std::uint32_t qpn = 0x20; qpn < 0x24; ++qpn) Send(First(qpn));
  Tick();
  Tick(std::chrono::seconds(6));
  for (std::uint32_t qpn = 0x21; qpn < 0x24; ++qpn) Send(Middle(qpn, 1));
  Tick(std::chrono::seconds(3));
  Send(First(0x30));
  Tick();
  EXPECT_EQ(control_.flows(), kMaxFlows) << "no flow has been idle for long";
  Tick(std::chrono::seconds(3));
  Send(First(0x30));
  Tick();
  EXPECT_EQ(control_.flows(), kMaxFlows - 1);
  Tick();
  Send(First(0x30));
  Tick();
  EXPECT_EQ(control_.flows(), kMaxFlows);
  EXPECT_EQ(Metric("espalier_dpdk_flows_refused_total"), 2);
}

TEST_F(Control, TellsTheAgentWhenFlowsAreBusy) {
  OpenAgent();
  TickUntilConnected();
  Send(First(0x20));
  Tick();
  const TimePoint began = now_;
  EXPECT_EQ(AgentFlows().at(0).edges.count, 1U);
  Send(Middle(0x20, 1));
  Tick();
  const TimePoint last_packet = now_;
  Tick(std::chrono::milliseconds(3));  // too short a pause
  EXPECT_EQ(AgentFlows().at(0).edges.count, 1U);
  Tick(std::chrono::milliseconds(3));
  agent::SourceEdges edges = AgentFlows().at(0).edges;
  EXPECT_EQ(edges.count, 2U);
  EXPECT_EQ(edges.last, last_packet);
  EXPECT_EQ(edges.between, last_packet - began);
  // It keeps its place while its job computes.
  Tick(std::chrono::seconds(60));
  Send(Middle(0x20, 2));
  Tick();
  edges = AgentFlows().at(0).edges;
  EXPECT_EQ(edges.count, 3U);
  EXPECT_EQ(edges.last, now_);
}

TEST(PacketActivity, UnacknowledgedPacketsAreInFlightForASecondAtMost) {
  const TimePoint start{};
  PacketActivity activity(start);
  activity.Update(false, true, start + std::chrono::milliseconds(900));
  EXPECT_TRUE(activity.IsBusy());
  activity.Update(false, true, start + std::chrono::milliseconds(1'000));
  EXPECT_FALSE(activity.IsBusy());
  EXPECT_EQ(activity.last_edge(), start);
}

TEST_F(Control, OpensANewFlowWhenAQueuePairsNumberIsUsedAgain) {
  OpenAgent();
  TickUntilConnected();
  Send(First(0x20));
  Tick();
  const std::vector<agent::FlowSample> old = AgentFlows();
  ASSERT_EQ(old.size(), 1U);
  ASSERT_TRUE(agent_->Apply({.flow = old[0].id, .paths = {{.source_port = 61'001}}}));
  Tick();
  // Two packets report the other port before the control thread handles the first event.
  RoceFrame other = First(0x20, 7'000'000);
  other.source_port = 50'123;
  Send(other);
  ++other.psn;
  Send(other);
  Tick();
  EXPECT_EQ(Metric("espalier_dpdk_queue_pair_numbers_reused_total"), 1);
  EXPECT_EQ(control_.flows(), 1U);
  Tick();
  const std::vector<agent::FlowSample> flows = AgentFlows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_NE(flows[0].id, old[0].id);
  EXPECT_EQ(flows[0].source_port, 50'123);
  other.opcode = 0x07;
  ++other.psn;
  EXPECT_EQ(Send(other), 50'123) << "the port was the old one's";
}

TEST_F(Control, PairsAFlowWithItsAcknowledgements) {
  Send(First(0x20));
  Tick();
  for (std::uint32_t psn = 1; psn < 8; ++psn) Send(Middle(0x20, psn));
  for (std::uint32_t psn = 2; psn < 5; ++psn) {
    EXPECT_FALSE(table_.HasAcknowledgements(0));
    Receive(Acknowledgement(psn));
    Tick();
  }
  EXPECT_TRUE(table_.HasAcknowledgements(0));
  Receive(Acknowledgement(5));
  EXPECT_EQ(table_.Read(0).outstanding_bytes, 2048U);
}

TEST_F(Control, IgnoresAmbiguousAcknowledgements) {
  for (const std::uint32_t qpn : {0x20U, 0x21U}) Send(First(qpn));
  Tick();
  for (std::uint32_t psn = 1; psn < 8; ++psn) {
    for (const std::uint32_t qpn : {0x20U, 0x21U}) Send(Middle(qpn, psn));
    Receive(Acknowledgement(psn));
    Tick();
  }
  EXPECT_FALSE(table_.HasAcknowledgements(0));
  EXPECT_FALSE(table_.HasAcknowledgements(1));
}

class DpdkConfiguration : public ::testing::Test {
 protected:
  Result<Configuration> Read(const std::string& text) {
    std::ofstream(path_) << text;
    return ReadConfiguration(path_);
  }
  std::string ErrorOf(const std::string& text) {
    const Result<Configuration> read = Read(text);
    EXPECT_FALSE(read) << text;
    if (read) return "";
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr(path_ + ":"));
    return read.error().message;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/dpdk.conf";
  const std::string ports_ = "host_port: \"a\"\nfabric_port: \"b\"\n";
};

TEST_F(DpdkConfiguration, OfTwoPortsAloneHasTheDefaults) {
  const Result<Configuration> config = Read(ports_);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->datapath.host_port, "a");
  EXPECT_EQ(config->datapath.fabric_port, "b");
  EXPECT_EQ(config->datapath.max_flows, 8192U);
  EXPECT_EQ(config->control.agent_socket, "/run/espalier/agent.sock");
  EXPECT_EQ(config->control.idle_flow, std::chrono::minutes(5));
  EXPECT_EQ(config->http, "127.0.0.1:9182");
  EXPECT_TRUE(config->eal.empty());
  EXPECT_FALSE(config->offloads);
}

TEST_F(DpdkConfiguration, NamesTheDeviceThatCorrectsTheCrc) {
  const Result<Configuration> config =
      Read(ports_ + "offload: ICRC_CORRECTED_BY_DEVICE offload_group: 2");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->offloads);
  EXPECT_EQ(config->offload_group, 2U);
}

TEST_F(DpdkConfiguration, SaysWhereTextIsWrong) {
  EXPECT_THAT(ErrorOf(ports_ + "max_flows: many\n"), HasSubstr(path_ + ":3:12: "));
  EXPECT_THAT(ErrorOf(ports_ + "\nqueues: 4\n"), HasSubstr(path_ + ":4:"));
  EXPECT_THAT(ErrorOf(ports_ + "eal: \"-l\n"), HasSubstr(path_ + ":3:"));
  EXPECT_THAT(ErrorOf(ports_ + "mtu: -1\n"), HasSubstr(path_ + ":3:"));
}

TEST_F(DpdkConfiguration, SaysWhichFieldIsOutOfRangeAndWhatToDo) {
  EXPECT_THAT(ErrorOf("fabric_port: \"b\""),
              HasSubstr("host_port is missing (name a port of DPDK"));
  EXPECT_THAT(ErrorOf("host_port: \"a\""),
              HasSubstr("fabric_port is missing (name a port of DPDK"));
  EXPECT_THAT(ErrorOf("host_port: \"a\" fabric_port: \"a\""),
              HasSubstr("fabric_port: must be another port than host_port"));
  EXPECT_THAT(ErrorOf(ports_ + "max_flows: 16385"),
              HasSubstr(path_ + ":3:1: max_flows: 16385 is not in 1..16384"));
  EXPECT_THAT(ErrorOf(ports_ + "mtu: 9601"),
              HasSubstr(path_ + ":3:1: mtu: 9601 is not in 0..9600"));
  EXPECT_THAT(ErrorOf(ports_ + "log_level: \"loud\""), HasSubstr("log_level: "));
  EXPECT_THAT(ErrorOf(ports_ + "offload_group: 1"), HasSubstr("offload_group: needs offload: "));
  EXPECT_THAT(ErrorOf(ports_ + "offload: YES"), HasSubstr(path_ + ":3:"));
}

TEST_F(DpdkConfiguration, IsMissing) {
  const Result<Configuration> config = ReadConfiguration(folder_.path() + "/none.conf");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace espalier::dpdk
