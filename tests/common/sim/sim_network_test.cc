#include "common/sim/sim_network.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/common/bus/bus_contract.h"

namespace espalier::sim {
namespace {

using namespace std::chrono_literals;

class SimHarness : public BusHarness {
 public:
  bool RunUntil(std::function<bool()> done) override {
    // A condition may send messages, so it is also tested while nothing happens.
    for (int i = 0; i < 1'000'000; ++i) {
      if (done()) return true;
      world_.RunFor(100us);
    }
    return false;
  }
  std::unique_ptr<Bus> MakeController() override { return network_.MakeController(*loop_); }
  std::unique_ptr<Bus> MakeAgent() override {
    return network_.MakeAgent(*loop_, "agent" + std::to_string(agents_++));
  }

 private:
  SimWorld world_{1};
  SimNetwork network_{world_};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  int agents_ = 0;
};

std::unique_ptr<BusHarness> MakeHarness() { return std::make_unique<SimHarness>(); }

// One controller, one agent "a", connected.
class SimNetworkTest : public testing::Test {
 protected:
  SimNetworkTest() { Settle(); }
  void Settle() { world_.RunFor(1s); }
  void SendNumbers(int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(agent_->Send(kControllerPeer, std::to_string(i)));
      world_.RunFor(20us);
    }
  }
  std::vector<int> Numbers() const {
    std::vector<int> numbers;
    for (const BusEnd::Received& message : controller_.received) {
      numbers.push_back(std::stoi(message.bytes));
    }
    return numbers;
  }

  SimWorld world_{42};
  SimNetwork network_{world_};
  std::unique_ptr<EventLoop> controller_loop_ = world_.MakeLoop();
  std::unique_ptr<EventLoop> agent_loop_ = world_.MakeLoop();
  BusEnd controller_{network_.MakeController(*controller_loop_)};
  BusEnd agent_{network_.MakeAgent(*agent_loop_, "a")};
};

TEST_F(SimNetworkTest, AMessageTakesTheDelay) {
  network_.SetFaults({.delay = 3ms});
  agent_->Send(kControllerPeer, "x");
  world_.RunFor(3ms - 1ns);
  EXPECT_TRUE(controller_.received.empty());
  world_.RunFor(1ns);
  EXPECT_EQ(controller_.received.size(), 1u);
}

TEST_F(SimNetworkTest, JitterSpreadsButNeverReorders) {
  network_.SetFaults({.delay = 1ms, .jitter = 1ms});
  std::set<Duration> delays;
  std::vector<TimePoint> sent;
  controller_.on_message = [&](PeerId, std::string_view bytes) {
    delays.insert(world_.Now() - sent[static_cast<std::size_t>(std::stoi(std::string(bytes)))]);
  };
  for (int i = 0; i < 60; ++i) {
    sent.push_back(world_.Now());
    agent_->Send(kControllerPeer, std::to_string(i));
    world_.RunFor(300us);
  }
  Settle();
  EXPECT_GT(delays.size(), 20u);
  EXPECT_GE(*delays.begin(), 1ms);
  EXPECT_LE(*delays.rbegin(), 2ms);
  EXPECT_TRUE(std::ranges::is_sorted(Numbers()));
  EXPECT_EQ(Numbers().size(), 60u);
}

TEST_F(SimNetworkTest, LosesAboutTheGivenShare) {
  network_.SetFaults("a", {.loss = 0.25});
  SendNumbers(4000);
  Settle();
  // Four standard deviations of a binomial distribution on each side.
  EXPECT_NEAR(static_cast<double>(Numbers().size()), 3000, 4 * 27.4);
  EXPECT_EQ(network_.statistics().lost, 4000 - Numbers().size());
  EXPECT_TRUE(std::ranges::is_sorted(Numbers()));
}

TEST_F(SimNetworkTest, DuplicatesFollowTheirOriginals) {
  network_.SetFaults({.duplication = 0.25});
  SendNumbers(4000);
  Settle();
  const std::vector<int> numbers = Numbers();
  EXPECT_NEAR(static_cast<double>(numbers.size()), 5000, 4 * 27.4);
  EXPECT_EQ(network_.statistics().duplicated, numbers.size() - 4000);
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
  EXPECT_EQ(std::set<int>(numbers.begin(), numbers.end()).size(), 4000u);
}

TEST_F(SimNetworkTest, APartitionHoldsMessagesBackWithoutNotice) {
  SendNumbers(1);
  Settle();
  const PeerId peer = controller_.received.front().from;
  agent_->Send(kControllerPeer, "1");  // on its way
  network_.Partition("a");
  agent_->Send(kControllerPeer, "2");
  EXPECT_TRUE(controller_->Send(peer, "x"));
  world_.RunFor(1h);
  EXPECT_EQ(Numbers(), std::vector<int>{0});
  EXPECT_TRUE(agent_.received.empty());
  EXPECT_TRUE(agent_.gone.empty());
  network_.Heal("a");
  Settle();
  EXPECT_EQ(Numbers(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(agent_.received.size(), 1u);
  EXPECT_EQ(controller_.received.back().from, peer);
}

TEST_F(SimNetworkTest, APartitionFillsTheQueue) {
  network_.Partition("a");
  int taken = 0;
  while (agent_->Send(kControllerPeer, std::to_string(taken))) ++taken;
  EXPECT_EQ(taken, 64);
  EXPECT_EQ(network_.statistics().refused, 1u);
  network_.Heal("a");
  Settle();
  EXPECT_EQ(Numbers().size(), 64u);
}

TEST_F(SimNetworkTest, AgentsDoNotConnectDuringAPartition) {
  network_.Partition("a");
  network_.Break("a");
  EXPECT_EQ(agent_.gone.size(), 1u);
  world_.RunFor(1h);
  EXPECT_FALSE(agent_->Send(kControllerPeer, "0"));
  network_.Heal("a");
  Settle();
  EXPECT_TRUE(agent_->Send(kControllerPeer, "1"));
  Settle();
  EXPECT_EQ(Numbers(), std::vector<int>{1});
}

TEST_F(SimNetworkTest, ABreakLosesMessagesInFlightAndGivesANewPeer) {
  SendNumbers(1);
  Settle();
  agent_->Send(kControllerPeer, "1");
  controller_->Send(controller_.received.front().from, "x");
  network_.Break("a");
  EXPECT_FALSE(agent_->Send(kControllerPeer, "2"));
  EXPECT_EQ(agent_.gone, std::vector<PeerId>{kControllerPeer});
  Settle();
  agent_->Send(kControllerPeer, "3");
  Settle();
  EXPECT_EQ(Numbers(), (std::vector<int>{0, 3}));
  EXPECT_TRUE(agent_.received.empty());
  EXPECT_NE(controller_.received[0].from, controller_.received[1].from);
}

TEST_F(SimNetworkTest, FaultsOfOneAgentAreItsOwn) {
  BusEnd other(network_.MakeAgent(*agent_loop_, "b"));
  Settle();
  network_.SetFaults("b", {.loss = 1});
  SendNumbers(1);
  other->Send(kControllerPeer, "77");
  Settle();
  EXPECT_EQ(Numbers(), std::vector<int>{0});
}

// 200 agents chatter while connections break and links partition.
std::uint64_t RunStorm(std::uint64_t seed) {
  SimWorld world(seed);
  SimNetwork network(world);
  Random random = world.MakeRandom();
  network.SetFaults({.jitter = 1ms, .loss = 0.05, .duplication = 0.05});
  const auto loop = world.MakeLoop();
  BusEnd controller(network.MakeController(*loop));
  controller.on_message = [&](PeerId from, std::string_view bytes) {
    controller->Send(from, std::string(bytes));
  };
  std::vector<std::unique_ptr<BusEnd>> agents;
  for (int i = 0; i < 200; ++i) {
    agents.push_back(std::make_unique<BusEnd>(network.MakeAgent(*loop, std::to_string(i))));
  }
  for (int round = 0; round < 500; ++round) {
    const std::size_t chosen = random.Below(agents.size());
    const std::string name = std::to_string(chosen);
    switch (random.Below(8)) {
      case 0:
        network.Break(name);
        break;
      case 1:
        network.Partition(name);
        break;
      case 2:
        network.Heal(name);
        break;
      default:
        (*agents[chosen])->Send(kControllerPeer, "message " + std::to_string(round));
    }
    world.RunFor(Duration(static_cast<Duration::rep>(random.Below(2'000'000))));
  }
  EXPECT_GT(network.statistics().delivered, 300u);
  return world.TraceHash();
}

TEST(SimNetwork, TheSameSeedGivesTheSameStorm) {
  const std::uint64_t first = RunStorm(7);
  EXPECT_EQ(RunStorm(7), first);
  EXPECT_NE(RunStorm(8), first);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Simulated, BusContract, testing::Values(&MakeHarness));

}  // namespace espalier::sim
