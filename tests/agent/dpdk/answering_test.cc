// Queue pairs of the host that answer data: how the datapath finds the two numbers of a connection,
// what it tells the agent, and that nobody makes it keep or change what it must not.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/agent/dpdk/control_fixture.h"

namespace espalier::dpdk {
namespace {

using namespace std::chrono_literals;

// Data of a peer to a queue pair of the host, and their acknowledgements. Both begin with PSN 0.
struct Connection {
  std::uint32_t local = 0x50;   // queue pair of the host
  std::uint32_t remote = 0x90;  // of the peer
  std::uint32_t psn = 0;        // of the next packet
};

constexpr std::uint32_t kMtu = 4096;

class Answering : public Control {
 protected:
  Answering() : Control(64) {}

  static RoceFrame Data(std::uint32_t qpn, std::uint32_t psn) {
    const bool begins = psn % 16 == 0;
    return {.source = "10.0.1.1",
            .destination = "10.0.0.1",
            .opcode = static_cast<std::uint8_t>(begins ? 0x06 : 0x07),
            .destination_qpn = qpn,
            .psn = psn,
            .payload = begins ? Reth(16 * kMtu, kMtu) : Bytes(kMtu, 1)};
  }
  static RoceFrame Answer(std::uint32_t qpn, std::uint32_t psn) {
    return {.opcode = 0x11, .destination_qpn = qpn, .psn = psn, .payload = Aeth(0)};
  }

  // Lets a message of each connection arrive, one after the other or packet by packet. Each
  // connection then acknowledges its message, at once or after all have arrived.
  void PassMessages(const std::vector<Connection*>& connections, bool at_once = true) {
    for (Connection* one : connections) {
      for (int i = 0; i < 16; ++i) Receive(Data(one->local, one->psn++));
      if (at_once) Send(Answer(one->remote, one->psn - 1));
    }
    for (Connection* one : connections) {
      if (!at_once) Send(Answer(one->remote, one->psn - 1));
    }
  }
  // One message of each connection in each tick.
  void PassFor(const std::vector<Connection*>& connections, int ticks, bool at_once = true) {
    for (int i = 0; i < ticks; ++i) {
      PassMessages(connections, at_once);
      Tick();
    }
  }
  std::map<std::uint32_t, std::uint32_t> NumbersAtTheAgent() {
    std::map<std::uint32_t, std::uint32_t> numbers;
    for (const agent::FlowSample& flow : AgentFlows()) numbers[flow.local_qpn] = flow.remote_qpn;
    return numbers;
  }
};

TEST_F(Answering, IsAFlowWithBothNumbersAndThePortThatTheAgentChooses) {
  OpenAgent();
  TickUntilConnected();
  Connection one;
  PassFor({&one}, 40);
  const std::vector<agent::FlowSample> flows = AgentFlows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].source.ToString(), "10.0.0.1");
  EXPECT_EQ(flows[0].destination.ToString(), "10.0.1.1");
  EXPECT_EQ(flows[0].local_qpn, 0x50U);
  EXPECT_EQ(flows[0].remote_qpn, 0x90U);
  EXPECT_EQ(flows[0].source_port, 50'000);
  EXPECT_EQ(flows[0].remaining_bytes + flows[0].outstanding_bytes + flows[0].sent_bytes, 0U);
  EXPECT_EQ(flows[0].edges.count, 2U) << "it has never been busy";
  EXPECT_TRUE(flows[0].announced.is_alone);
  EXPECT_EQ(Metric("espalier_dpdk_answering_flows"), 1);
  EXPECT_EQ(Send(Answer(0x90, one.psn)), 50'000);
  ASSERT_TRUE(agent_->Apply({.flow = flows[0].id, .paths = {{.source_port = 61'001}}}));
  Tick();
  EXPECT_EQ(Send(Answer(0x90, one.psn)), 61'001);
  EXPECT_EQ(Send(Answer(0x91, one.psn)), 50'000) << "another queue pair";
  PassFor({&one}, 2);
  EXPECT_EQ(AgentFlows().at(0).source_port, 61'001);
  ASSERT_TRUE(agent_->Clear(flows[0].id));
  Tick();
  EXPECT_EQ(Send(Answer(0x90, one.psn)), 50'000);
  // Without acknowledgements it ends, and is found again.
  Tick();
  Tick(301s);
  Serve();
  EXPECT_EQ(AgentFlows().size(), 0U);
  EXPECT_EQ(Metric("espalier_dpdk_answering_flows"), 0);
  PassFor({&one}, 40);
  EXPECT_EQ(NumbersAtTheAgent(), (std::map<std::uint32_t, std::uint32_t>{{0x50, 0x90}}));
}

TEST_F(Answering, OnlyDataOfAnElephantAreAnsweredByAFlow) {
  OpenAgent();
  TickUntilConnected();
  Connection mouse;
  PassFor({&mouse}, 12);  // 768 KiB
  for (int i = 0; i < 30; ++i) {
    Send(Answer(0x90, mouse.psn - 1));
    Tick();
  }
  EXPECT_EQ(AgentFlows().size(), 0U);
  PassFor({&mouse}, 30);
  EXPECT_EQ(AgentFlows().size(), 1U);
}

// As the queue pairs of one program have, which begin at 0 and send the same messages.
TEST_F(Answering, QueuePairsWithTheSamePacketNumbersAreToldApart) {
  OpenAgent();
  TickUntilConnected();
  std::vector<Connection> pairs;
  std::vector<Connection*> all;
  for (std::uint32_t i = 0; i < 8; ++i) pairs.push_back({.local = 0x50 + i, .remote = 0x97 - i});
  for (Connection& pair : pairs) all.push_back(&pair);
  PassFor(all, 60);
  std::map<std::uint32_t, std::uint32_t> expected;
  for (const Connection& pair : pairs) expected[pair.local] = pair.remote;
  EXPECT_EQ(NumbersAtTheAgent(), expected);
}

TEST_F(Answering, WhatCannotBeToldApartIsNotGuessed) {
  OpenAgent();
  TickUntilConnected();
  Connection one{.local = 0x50, .remote = 0x91};
  Connection two{.local = 0x51, .remote = 0x90};
  PassFor({&one, &two}, 60, false);
  EXPECT_EQ(AgentFlows().size(), 0U);
  // They differ once.
  PassFor({&one, &two}, 1, true);
  PassFor({&one, &two}, 20, false);
  EXPECT_EQ(NumbersAtTheAgent(),
            (std::map<std::uint32_t, std::uint32_t>{{0x50, 0x91}, {0x51, 0x90}}));
}

TEST_F(Answering, AQueuePairThatComesLaterIsNoReasonForAWrongNumber) {
  OpenAgent();
  TickUntilConnected();
  Connection one{.local = 0x50, .remote = 0x91};
  for (int i = 0; i < 30; ++i) {
    for (int k = 0; k < 16; ++k) Receive(Data(one.local, one.psn++));
    // The datapath has not seen data of this one's connection yet.
    if (i > 25) Send(Answer(0x90, one.psn - 1));
    Tick();
  }
  EXPECT_EQ(control_.matches(), 1U);
  Connection two{.local = 0x51, .remote = 0x90, .psn = one.psn};
  for (int i = 0; i < 60; ++i) {
    for (int k = 0; k < 16; ++k) Receive(Data(one.local, one.psn++));
    PassMessages({&two});
    Tick();
  }
  EXPECT_EQ(AgentFlows().size(), 0U);
  PassMessages({&two});
  for (int k = 0; k < 16; ++k) Receive(Data(one.local, one.psn++));
  PassFor({&one, &two}, 10);
  EXPECT_EQ(NumbersAtTheAgent(), (std::map<std::uint32_t, std::uint32_t>{{0x51, 0x90}}));
}

// Whatever a program of the host sends to other queue pairs.
TEST_F(Answering, OneStreamOfDataHasOneOtherEnd) {
  OpenAgent();
  TickUntilConnected();
  Connection one;
  for (int i = 0; i < 60; ++i) {
    PassMessages({&one});
    for (std::uint32_t qpn = 0x91; qpn < 0x99; ++qpn) Send(Answer(qpn, one.psn - 1));
    Tick();
  }
  EXPECT_EQ(AgentFlows().size(), 1U);
  EXPECT_EQ(control_.flows(), 1U);
}

// Two queue pairs read the same numbers of packets, one message after the other.
TEST_F(Answering, RequestsOfDataThatAreReadAreAFlowToo) {
  OpenAgent();
  TickUntilConnected();
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs = {{0x50, 0x91}, {0x51, 0x90}};
  Bytes first = Aeth(0);
  first.resize(kMtu + 4, 1);
  for (std::uint32_t psn = 0; psn < 60 * 16; psn += 16) {
    for (const auto& [local, remote] : pairs) {
      Send({.opcode = 0x0C, .destination_qpn = remote, .psn = psn, .payload = Reth(16 * kMtu)});
      for (std::uint32_t i = 0; i < 16; ++i) {
        RoceFrame data = Data(local, psn + i);
        data.opcode = static_cast<std::uint8_t>(i == 0 ? 0x0D : 0x0E);
        data.payload = i == 0 ? first : Bytes(kMtu, 1);
        Receive(data);
      }
    }
    Tick();
  }
  EXPECT_EQ(NumbersAtTheAgent(),
            (std::map<std::uint32_t, std::uint32_t>{{0x50, 0x91}, {0x51, 0x90}}));
  for (const agent::FlowSample& flow : AgentFlows()) {
    EXPECT_EQ(flow.edges.count, 2U);
    ASSERT_TRUE(agent_->Apply({.flow = flow.id, .paths = {{.source_port = 61'001}}}));
  }
  Tick();
  EXPECT_EQ(Send({.opcode = 0x0C, .destination_qpn = 0x91, .psn = 960, .payload = Reth(kMtu)}),
            61'001);
}

TEST_F(Answering, CoresLookForAWhileAndThenRest) {
  Connection one;
  const auto looks = [this] { return table_.Begin().LooksAtAll(); };
  const auto pass_data = [&] {
    for (int i = 0; i < 20 * 16; ++i) Receive(Data(one.local, one.psn++));
    Tick();
  };
  Tick();
  EXPECT_FALSE(looks());
  pass_data();
  EXPECT_TRUE(looks());
  pass_data();
  Tick(4s);
  EXPECT_TRUE(looks()) << "an elephant may pause";
  Tick(1s);
  EXPECT_FALSE(looks()) << "nobody acknowledges it";
  EXPECT_EQ(control_.arrivals(), 1U);
  Tick(29s);
  EXPECT_FALSE(looks());
  Tick(1s);
  EXPECT_TRUE(looks());
  pass_data();
  Tick(5s);
  Tick(30s);
  Tick(5s);
  EXPECT_EQ(control_.arrivals(), 0U) << "nothing has come for so long";
  EXPECT_FALSE(looks());
}

// If both ends send data, acknowledgements to the host name its own queue pair, too.
TEST_F(Answering, DataInBothDirectionsAreKnownByTheirAcknowledgements) {
  OpenAgent();
  TickUntilConnected();
  Connection one{.local = 0x99, .remote = 0x20};
  Send(First(0x20));
  for (int k = 0; k < 16; ++k) Receive(Data(one.local, one.psn++));
  Tick();
  EXPECT_TRUE(table_.Begin().LooksAtAll());
  for (std::uint32_t psn = 1; psn < 8; ++psn) Send(Middle(0x20, psn));
  for (std::uint32_t psn = 2; psn < 6; ++psn) {
    Receive(Acknowledgement(psn));
    Tick();
  }
  EXPECT_FALSE(table_.Begin().LooksAtAll());
  for (int i = 0; i < 40; ++i) {
    PassMessages({&one});
    Tick();
  }
  EXPECT_EQ(NumbersAtTheAgent(), (std::map<std::uint32_t, std::uint32_t>{{0x99, 0x20}}));
  EXPECT_FALSE(table_.Begin().LooksAtAll());
}

TEST_F(Answering, DataThatComeLaterToAKnownQueuePairAreKnown) {
  Send(First(0x20));
  Tick();
  for (std::uint32_t psn = 1; psn < 8; ++psn) Send(Middle(0x20, psn));
  for (std::uint32_t psn = 2; psn < 6; ++psn) {
    Receive(Acknowledgement(psn));
    Tick();
  }
  Connection one{.local = 0x99, .remote = 0x20};
  PassMessages({&one});
  Tick();
  EXPECT_EQ(control_.arrivals(), 1U);
  EXPECT_FALSE(table_.Begin().LooksAtAll());
}

// What came while cores did not look seems not to have come.
TEST_F(Answering, NothingIsComparedBeforeCoresKnowHowFarDataAre) {
  OpenAgent();
  TickUntilConnected();
  Connection one{.local = 0x50, .remote = 0x91};
  Connection two{.local = 0x51, .remote = 0x90};
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 16; ++k) {
      Receive(Data(one.local, one.psn++));
      Receive(Data(two.local, two.psn++));
    }
    Tick();
  }
  Tick(5s);
  EXPECT_FALSE(table_.Begin().LooksAtAll());
  for (int k = 0; k < 16; ++k) Receive(Data(one.local, one.psn++));
  Tick(30s);
  EXPECT_TRUE(table_.Begin().LooksAtAll());
  for (int k = 0; k < 16; ++k) Receive(Data(two.local, two.psn++));
  for (int i = 0; i < 9; ++i) {
    for (int k = 0; k < 3; ++k) Send(Answer(one.remote, one.psn - 1));
    Tick();
  }
  for (int i = 0; i < 20; ++i) Tick();
  EXPECT_EQ(AgentFlows().size(), 0U);
}

TEST_F(Answering, BecomesAnOrdinaryFlowWhenItSendsData) {
  OpenAgent();
  TickUntilConnected();
  Connection one;
  PassFor({&one}, 40);
  const std::vector<agent::FlowSample> before = AgentFlows();
  ASSERT_EQ(before.size(), 1U);
  ASSERT_TRUE(agent_->Apply({.flow = before[0].id, .paths = {{.source_port = 61'001}}}));
  Tick();
  RoceFrame data = First(0x90, 7'000);
  EXPECT_EQ(Send(data), 61'001) << "no packet leaves on another port";
  Tick();
  data.opcode = 0x07;
  for (data.psn = 7'001; data.psn < 7'101; ++data.psn) EXPECT_EQ(Send(data), 61'001);
  Tick();
  const std::vector<agent::FlowSample> after = AgentFlows();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].id, before[0].id);
  EXPECT_EQ(after[0].local_qpn, 0x50U);
  EXPECT_EQ(after[0].edges.count % 2, 1U);
  EXPECT_GT(after[0].sent_bytes + after[0].outstanding_bytes, 100'000U);
  EXPECT_EQ(Metric("espalier_dpdk_answering_flows"), 0);
}

TEST_F(Answering, AFlowTellsItsOwnNumberWhenItIsKnownAndKeepsItsPort) {
  OpenAgent();
  TickUntilConnected();
  Send(First(0x20));
  Tick();
  const std::vector<agent::FlowSample> before = AgentFlows();
  ASSERT_EQ(before.size(), 1U);
  EXPECT_EQ(before[0].local_qpn, 0U);
  ASSERT_TRUE(agent_->Apply({.flow = before[0].id, .paths = {{.source_port = 61'001}}}));
  Tick();
  for (std::uint32_t psn = 1; psn < 8; ++psn) Send(Middle(0x20, psn));
  for (std::uint32_t psn = 2; psn < 5; ++psn) {
    Receive(Acknowledgement(psn));
    Tick();
  }
  Tick();
  const std::vector<agent::FlowSample> after = AgentFlows();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].local_qpn, 0x99U);
  EXPECT_EQ(after[0].remote_qpn, 0x20U);
  EXPECT_NE(after[0].id, before[0].id);
  ASSERT_EQ(after[0].kept.paths.size(), 1U);
  EXPECT_EQ(after[0].kept.paths[0].source_port, 61'001);
  EXPECT_EQ(Send(Middle(0x20, 8)), 61'001);
  ASSERT_TRUE(agent_->Apply({.flow = after[0].id, .paths = {{.source_port = 61'002}}}));
  Tick();
  EXPECT_EQ(Send(Middle(0x20, 9)), 61'002);
}

// The host's own queue pairs of one program, too, have the same PSNs.
TEST_F(Answering, SendingQueuePairsWithTheSamePacketNumbersAreToldApart) {
  OpenAgent();
  TickUntilConnected();
  std::map<std::uint32_t, std::uint32_t> expected;
  for (std::uint32_t i = 0; i < 6; ++i) {
    Send(First(0x20 + i));
    expected[0x99 - i] = 0x20 + i;
  }
  Tick();
  Tick(30ms);
  for (std::uint32_t psn = 1; psn < 40; ++psn) {
    for (std::uint32_t i = 0; i < 6; ++i) {
      Send(Middle(0x20 + i, psn));
      RoceFrame acknowledgement = Acknowledgement(psn);
      acknowledgement.destination_qpn = 0x99 - i;
      Receive(acknowledgement);
    }
    Tick();
  }
  EXPECT_EQ(NumbersAtTheAgent(), expected);
}

TEST_F(Answering, AReadNamesTheQueuePairThatSendsItsData) {
  OpenAgent();
  TickUntilConnected();
  Receive({.source = "10.0.1.1",
           .destination = "10.0.0.1",
           .opcode = 0x0C,
           .destination_qpn = 0x77,
           .psn = 5000,
           .payload = Reth(3 << 20)});
  Bytes response = Aeth(0);
  response.resize(1028, 1);
  Send({.opcode = 0x0D, .psn = 5000, .payload = response});
  Tick();
  EXPECT_EQ(NumbersAtTheAgent(), (std::map<std::uint32_t, std::uint32_t>{{0x77, 0x11}}));
}

TEST_F(Answering, FloodsOfAcknowledgementsToRandomQueuePairsLeaveNothingBehind) {
  OpenAgent();
  TickUntilConnected();
  Connection one;
  Send(First(0x20));
  for (std::uint32_t i = 0; i < 2'000; ++i) {
    if (i % 10 == 0) PassMessages({&one});
    const std::uint32_t random = i * 2'654'435'761U;
    Send(Answer(0x1000 + (random & 0xFFFFF), one.psn - 1 - random % 64));
    RoceFrame incoming = Acknowledgement(random & kPsnMask);
    incoming.destination_qpn = 0x1000 + (random >> 8 & 0xFFFF);
    Receive(incoming);
    if (i % 16 == 0) Tick();
  }
  EXPECT_LE(control_.matches(), StreamTable::kMostMatches);
  EXPECT_EQ(control_.flows(), 2U) << "the flow that sends, and the one that answers";
  EXPECT_EQ(NumbersAtTheAgent().count(0x50), 1U);
  EXPECT_EQ(NumbersAtTheAgent()[0x50], 0x90U);
  Tick(6s);
  Tick();
  EXPECT_EQ(control_.matches(), 0U);
}

TEST_F(Answering, FloodsOfDataToRandomQueuePairsAreForgotten) {
  for (std::uint32_t i = 0; i < 5'000; ++i) {
    Receive(Data(0x1000 + 3 * i, 16 * i));
    if (i % 8 == 0) Tick();
  }
  EXPECT_EQ(control_.arrivals(), 32U) << "half of the table's flows";
  EXPECT_EQ(control_.flows(), 0U);
  Tick(2s);
  EXPECT_EQ(control_.arrivals(), 0U);
}

TEST_F(Answering, MakesRoomForFlowsThatSendData) {
  std::vector<Connection> pairs;
  std::vector<Connection*> all;
  for (std::uint32_t i = 0; i < 40; ++i) pairs.push_back({.local = 0x50 + i, .remote = 0x90 + i});
  for (Connection& pair : pairs) all.push_back(&pair);
  PassFor(all, 100);
  EXPECT_EQ(Metric("espalier_dpdk_answering_flows"), 32) << "half of the table";
  for (int round = 0; round < 40; ++round) {
    for (std::uint32_t qpn = 0x200; qpn < 0x240; ++qpn) Send(First(qpn));
    PassMessages(all);
    Tick();
  }
  EXPECT_EQ(Metric("espalier_dpdk_answering_flows"), 0);
  EXPECT_EQ(control_.flows(), 64U);
}

}  // namespace
}  // namespace espalier::dpdk
