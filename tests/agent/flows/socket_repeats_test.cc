#include "agent/flows/guard/socket_repeats.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/agent/agent_fixture.h"
#include "tests/agent/flows/fake_transports.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;

// Calls it directly with flows that all have a path of their own.
class SocketRepeatsTest : public ::testing::Test {
 protected:
  struct Actuator : FlowActuator {
    Result<void> Apply(const wire::PathSet&) override { return {}; }
    Result<void> Clear(wire::LocalFlowId) override { return {}; }
  };

  static std::uint16_t PortOf(std::uint64_t id) { return static_cast<std::uint16_t>(10'000 + id); }
  void Open(std::uint64_t id, std::uint32_t user) {
    samples_.push_back({.id = wire::LocalFlowId(id),
                        .announced = {.user = user},
                        .user = user,
                        .protocol = wire::kProtocolTcp,
                        .remaining_bytes = 1});
    transports_.sockets[PortOf(id)] = {.user = user, .cookie = id};
    push_.sets.push_back(
        {.flow = wire::LocalFlowId(id), .paths = {{.source_port = PortOf(id), .encoding = {}}}});
  }
  void Push() {
    ports_.HandleFlows(samples_);
    push_.epoch = 1;
    ++push_.generation;
    push_.full = true;
    ports_.HandlePush(push_);
  }
  // A round and all its readings.
  void Round() {
    now_ += SocketRepeats::kInterval;
    std::vector<FlowMeasure> flows;
    for (const FlowSample& sample : samples_) flows.push_back({.sample = &sample});
    for (int i = 0; i < 10; ++i) {
      const std::size_t before = transports_.read.size();
      repeats_.HandleMeasures(now_, flows, ports_);
      most_at_once_ = std::max(most_at_once_, transports_.read.size() - before);
    }
  }
  // -1: the kernel does not know.
  int Take(std::uint64_t id) {
    const auto count = repeats_.Take(wire::LocalFlowId(id), PortOf(id));
    return count ? static_cast<int>(count->repeats) : -1;
  }
  TcpSocket& Socket(std::uint64_t id) { return transports_.sockets[PortOf(id)]; }

  TimePoint now_{};
  FakeTransports transports_;
  SocketRepeats repeats_{transports_.Readers()};
  Actuator actuator_;
  PortTable ports_{actuator_};
  std::vector<FlowSample> samples_;
  wire::PathPush push_;
  std::size_t most_at_once_ = 0;
};

TEST_F(SocketRepeatsTest, CountsWhatASocketRepeatsFromItsFirstReadingOn) {
  Open(1, kUser);
  Push();
  EXPECT_EQ(Take(1), -1);
  Socket(1).repeats = 5;
  Round();
  EXPECT_EQ(Take(1), 0);
  Socket(1).repeats = 7;
  Round();
  Socket(1).repeats = 8;
  Socket(1).rtt_us = 33;
  Round();
  EXPECT_EQ(repeats_.Take(wire::LocalFlowId(1), PortOf(1))->rtt_us, 33U);
  Socket(1).repeats = 9;
  Round();
  EXPECT_EQ(Take(1), 1);
  EXPECT_EQ(Take(1), 0);
}

TEST_F(SocketRepeatsTest, DoesNotCountAcrossTwoSocketsOfTheSamePort) {
  Open(1, kUser);
  Push();
  Round();
  Socket(1) = {.user = kUser, .cookie = 99, .repeats = 40};
  Round();
  EXPECT_EQ(Take(1), 0);
}

TEST_F(SocketRepeatsTest, KnowsNoSocketOfAnotherUser) {
  Open(1, kUser);
  Push();
  Round();
  EXPECT_EQ(Take(1), 0);
  Socket(1).user = kUser + 1;
  Socket(1).repeats = 4;
  Round();
  EXPECT_EQ(Take(1), -1);
}

TEST_F(SocketRepeatsTest, ReadsNoFlowWithoutPathsAndNoneOfAnUnknownUser) {
  Open(1, kUser);
  Open(2, kUnknownUser);
  push_.sets.erase(push_.sets.begin());
  Push();
  Round();
  EXPECT_THAT(transports_.read, IsEmpty());
}

TEST_F(SocketRepeatsTest, ForgetsFlowsThatHaveEnded) {
  Open(1, kUser);
  Push();
  Round();
  samples_.clear();
  Round();
  EXPECT_EQ(Take(1), -1);
}

TEST_F(SocketRepeatsTest, ReadsAFewAtATimeAndAllInTurn) {
  for (std::uint64_t id = 1; id <= 700; ++id) Open(id, kUser);
  Push();
  std::set<std::uint16_t> ports;
  for (int i = 0; i < 3; ++i) {
    transports_.read.clear();
    Round();
    EXPECT_EQ(transports_.read.size(), SocketRepeats::kMostSockets);
    for (const TcpConnection& read : transports_.read) ports.insert(read.source_port);
  }
  EXPECT_EQ(ports.size(), 700U);
  EXPECT_LE(most_at_once_, SocketRepeats::kMostAtOnce);
}

// A program that announces any number of connections does not keep others from being read.
TEST_F(SocketRepeatsTest, ReadsTheFlowsOfEachUserAsOften) {
  for (std::uint64_t id = 1; id <= 2'000; ++id) Open(id, kUser);
  for (std::uint64_t id = 2'001; id <= 2'100; ++id) Open(id, kUser + 1);
  Push();
  Round();
  std::map<bool, int> reads;
  for (const TcpConnection& read : transports_.read) ++reads[read.source_port > PortOf(2'000)];
  EXPECT_EQ(reads[true], 100);
  EXPECT_EQ(reads[false], 156);
}

}  // namespace
}  // namespace espalier::agent
