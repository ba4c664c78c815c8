#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/bus.h"
#include "common/base/time/event_loop.h"
#include "tests/common/bus/bus_end.h"

// The contract of every Bus: instantiate BusContract with a factory of harnesses.
namespace espalier {

// One controller and any number of agents on a network without faults.
class BusHarness {
 public:
  virtual ~BusHarness() = default;
  virtual bool RunUntil(std::function<bool()> done) = 0;
  // Starts a controller; if there was one before, its agents find the new one.
  virtual std::unique_ptr<Bus> MakeController() = 0;
  virtual std::unique_ptr<Bus> MakeAgent() = 0;
};

using BusHarnessFactory = std::function<std::unique_ptr<BusHarness>()>;

class BusContract : public testing::TestWithParam<BusHarnessFactory> {
 protected:
  std::unique_ptr<BusEnd> MakeController() {
    return std::make_unique<BusEnd>(harness_->MakeController());
  }
  std::unique_ptr<BusEnd> MakeAgent() { return std::make_unique<BusEnd>(harness_->MakeAgent()); }
  void RunUntil(std::function<bool()> done) { ASSERT_TRUE(harness_->RunUntil(std::move(done))); }

  // The peer id of this agent's next message at the controller.
  PeerId Introduce(BusEnd& controller, BusEnd& agent) {
    const std::string greeting = "hello " + std::to_string(next_greeting_++);
    PeerId id;
    bool arrived = false;
    RunUntil([&] {
      // Repeats the message, which may be lost until the connection is established.
      if (!arrived) agent->Send(kControllerPeer, greeting);
      for (const BusEnd::Received& message : controller.received) {
        if (message.bytes != greeting) continue;
        id = message.from;
        arrived = true;
      }
      return arrived;
    });
    return id;
  }

  // The messages of one end without greetings, which may arrive several times.
  static std::vector<std::string> Texts(const BusEnd& end) {
    std::vector<std::string> texts;
    for (const BusEnd::Received& message : end.received) {
      if (!message.bytes.starts_with("hello ")) texts.push_back(message.bytes);
    }
    return texts;
  }

 private:
  std::unique_ptr<BusHarness> harness_ = GetParam()();
  int next_greeting_ = 0;
};

// Bytes of every value, with a length that is no multiple of a frame's.
inline std::string Payload(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 131 + size);
  return bytes;
}

TEST_P(BusContract, CarriesWholeMessagesInOrderBothWays) {
  const auto controller = MakeController();
  const auto agent = MakeAgent();
  const PeerId peer = Introduce(*controller, *agent);
  std::vector<std::string> sent;
  for (const std::size_t size : {1, 2, 30, 33, 255, 256, 8191, 65'537, 1 << 20}) {
    sent.push_back(Payload(size));
    EXPECT_TRUE((*agent)->Send(kControllerPeer, sent.back()));
    EXPECT_TRUE((*controller)->Send(peer, sent.back()));
  }
  RunUntil([&] {
    return Texts(*controller).size() == sent.size() && Texts(*agent).size() == sent.size();
  });
  EXPECT_EQ(Texts(*controller), sent);
  EXPECT_EQ(Texts(*agent), sent);
  for (const BusEnd::Received& message : controller->received) EXPECT_EQ(message.from, peer);
  for (const BusEnd::Received& message : agent->received) EXPECT_EQ(message.from, kControllerPeer);
  EXPECT_TRUE(controller->gone.empty());
  EXPECT_TRUE(agent->gone.empty());
}

TEST_P(BusContract, RepliesReachTheAgentThatAsked) {
  constexpr std::size_t kAgents = 40;
  constexpr std::size_t kRounds = 20;
  const auto controller = MakeController();
  controller->on_message = [&](PeerId from, std::string_view bytes) {
    if (!bytes.starts_with("hello ")) (*controller)->Send(from, "re:" + std::string(bytes));
  };
  std::vector<std::unique_ptr<BusEnd>> agents;
  std::map<PeerId, std::size_t> ids;
  for (std::size_t a = 0; a < kAgents; ++a) {
    agents.push_back(MakeAgent());
    ids[Introduce(*controller, *agents[a])] = a;
  }
  EXPECT_EQ(ids.size(), kAgents);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t a = 0; a < kAgents; ++a) {
      const std::string text = std::to_string(a) + "/" + std::to_string(round);
      EXPECT_TRUE((*agents[a])->Send(kControllerPeer, text));
    }
  }
  RunUntil([&] {
    return std::all_of(agents.begin(), agents.end(),
                       [](const auto& agent) { return agent->received.size() == kRounds; });
  });
  for (std::size_t a = 0; a < kAgents; ++a) {
    for (std::size_t round = 0; round < kRounds; ++round) {
      EXPECT_EQ(agents[a]->received[round].bytes,
                "re:" + std::to_string(a) + "/" + std::to_string(round));
    }
  }
}

TEST_P(BusContract, EveryAnswerInsideACallbackIsHeard) {
  constexpr int kRounds = 500;
  const auto controller = MakeController();
  controller->on_message = [&](PeerId from, std::string_view bytes) {
    (*controller)->Send(from, std::string(bytes));
  };
  const auto agent = MakeAgent();
  int rounds = 0;
  agent->on_message = [&](PeerId, std::string_view bytes) {
    if (bytes.starts_with("hello ")) return;
    if (++rounds < kRounds) (*agent)->Send(kControllerPeer, std::to_string(rounds));
  };
  Introduce(*controller, *agent);
  (*agent)->Send(kControllerPeer, "0");
  RunUntil([&] { return rounds == kRounds; });
}

TEST_P(BusContract, SendToAPeerThatNeverWasIsFalse) {
  const auto controller = MakeController();
  EXPECT_FALSE((*controller)->Send(PeerId(17), "x"));
  (*controller)->Disconnect(PeerId(17));
}

TEST_P(BusContract, APeerThatWentIsReportedOnceAndTakesNoMessage) {
  const auto controller = MakeController();
  auto agent = MakeAgent();
  const auto other = MakeAgent();
  const PeerId peer = Introduce(*controller, *agent);
  const PeerId other_peer = Introduce(*controller, *other);
  agent.reset();
  RunUntil([&] {
    (*controller)->Send(peer, "are you there?");
    return !controller->gone.empty();
  });
  EXPECT_FALSE((*controller)->Send(peer, "x"));
  EXPECT_TRUE((*controller)->Send(other_peer, "you are"));
  RunUntil([&] { return Texts(*other).size() == 1; });
  EXPECT_EQ(controller->gone, std::vector<PeerId>{peer});
}

TEST_P(BusContract, AnAgentThatDisconnectsComesBackAsANewPeer) {
  const auto controller = MakeController();
  const auto agent = MakeAgent();
  const PeerId before = Introduce(*controller, *agent);
  (*agent)->Disconnect(kControllerPeer);
  const PeerId after = Introduce(*controller, *agent);
  EXPECT_NE(after, before);
  EXPECT_TRUE(agent->gone.empty());  // it disconnected the peer itself
  EXPECT_TRUE((*controller)->Send(after, "welcome back"));
  RunUntil([&] { return !Texts(*agent).empty(); });
  RunUntil([&] { return !(*controller)->Send(before, "old"); });
  EXPECT_EQ(Texts(*agent), std::vector<std::string>{"welcome back"});
}

TEST_P(BusContract, AnAgentThatIsDisconnectedIsToldAndComesBackAsANewPeer) {
  const auto controller = MakeController();
  const auto agent = MakeAgent();
  const PeerId before = Introduce(*controller, *agent);
  EXPECT_TRUE((*controller)->Send(before, "goodbye"));
  (*controller)->Disconnect(before);
  EXPECT_FALSE((*controller)->Send(before, "x"));
  RunUntil([&] { return !agent->gone.empty(); });
  EXPECT_EQ(Texts(*agent), std::vector<std::string>{"goodbye"});
  EXPECT_EQ(agent->gone, std::vector<PeerId>{kControllerPeer});
  EXPECT_NE(Introduce(*controller, *agent), before);
  EXPECT_TRUE(controller->gone.empty());  // it disconnected the peer itself
}

TEST_P(BusContract, NothingOfADisconnectedPeerIsHeard) {
  const auto controller = MakeController();
  const auto agent = MakeAgent();
  const PeerId peer = Introduce(*controller, *agent);
  (*controller)->Disconnect(peer);
  (*agent)->Send(kControllerPeer, "from the old connection");
  EXPECT_NE(Introduce(*controller, *agent), peer);
  EXPECT_TRUE(Texts(*controller).empty());
}

TEST_P(BusContract, AgentsOutliveTheirController) {
  auto controller = MakeController();
  const auto agent = MakeAgent();
  Introduce(*controller, *agent);
  controller.reset();
  RunUntil([&] { return !agent->gone.empty(); });
  const auto next = MakeController();
  const PeerId peer = Introduce(*next, *agent);
  EXPECT_TRUE((*next)->Send(peer, "I am new"));
  RunUntil([&] { return !Texts(*agent).empty(); });
  EXPECT_EQ(agent->gone, std::vector<PeerId>{kControllerPeer});
}

TEST_P(BusContract, AFullQueueRefusesAndLosesNothingItTook) {
  const auto controller = MakeController();
  const auto agent = MakeAgent();
  const PeerId peer = Introduce(*controller, *agent);
  // The loop does not run meanwhile, so the queues must fill.
  std::vector<std::string> taken;
  for (int i = 0;; ++i) {
    ASSERT_LT(i, 100'000);
    std::string message = std::to_string(i) + " " + std::string(100'000, 'x');
    if (!(*controller)->Send(peer, message)) break;
    taken.push_back(std::move(message));
  }
  RunUntil([&] { return Texts(*agent).size() >= taken.size(); });
  EXPECT_EQ(Texts(*agent), taken);
  EXPECT_TRUE(controller->gone.empty());
  EXPECT_TRUE((*controller)->Send(peer, "room again"));
  RunUntil([&] { return Texts(*agent).size() == taken.size() + 1; });
}

TEST_P(BusContract, EitherEndMayDisconnectInsideACallback) {
  const auto controller = MakeController();
  const auto agent = MakeAgent();
  controller->on_message = [&](PeerId from, std::string_view bytes) {
    if (bytes == "drop me") (*controller)->Disconnect(from);
  };
  agent->on_message = [&](PeerId from, std::string_view) { (*agent)->Disconnect(from); };
  const PeerId first = Introduce(*controller, *agent);
  (*agent)->Send(kControllerPeer, "drop me");
  (*agent)->Send(kControllerPeer, "unheard");
  RunUntil([&] { return !agent->gone.empty(); });
  const PeerId second = Introduce(*controller, *agent);
  EXPECT_NE(first, second);
  EXPECT_TRUE((*controller)->Send(second, "one"));
  (*controller)->Send(second, "two");
  RunUntil([&] { return !Texts(*agent).empty(); });
  EXPECT_NE(Introduce(*controller, *agent), second);
  EXPECT_EQ(Texts(*agent), std::vector<std::string>{"one"});
  EXPECT_EQ(Texts(*controller), std::vector<std::string>{"drop me"});
}

TEST_P(BusContract, EndsMayGoInAnyOrderWithMessagesOnTheirWay) {
  for (const bool controller_first : {true, false}) {
    auto controller = MakeController();
    auto agent = MakeAgent();
    const PeerId peer = Introduce(*controller, *agent);
    (*agent)->Send(kControllerPeer, "on its way");
    (*controller)->Send(peer, "on its way");
    if (controller_first) controller.reset();
    agent.reset();
  }
}

}  // namespace espalier
