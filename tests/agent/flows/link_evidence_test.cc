// What probes of one flow show of links counts for the other flows of the host.
#include "agent/flows/guard/link_evidence.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <random>
#include <set>
#include <string>

#include "tests/agent/flows/path_guard_fixture.h"
#include "tests/seeds.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Links = std::vector<std::uint32_t>;

constexpr TimePoint kFound{std::chrono::hours(1)};

wire::FlowPath PathOver(Links links) { return {.encoding = {}, .links = std::move(links)}; }

TEST(LinkEvidence, APathWithAllSuspectsIsDeadAndOneWithSomeIsSuspect) {
  LinkEvidence evidence;
  evidence.HandleDead(kFound, PathOver({1, 2}));
  EXPECT_TRUE(evidence.IsDead(PathOver({1, 2})));
  EXPECT_FALSE(evidence.IsDead(PathOver({1, 3})));
  EXPECT_TRUE(evidence.IsSuspect(PathOver({1, 3})));
  EXPECT_FALSE(evidence.IsSuspect(PathOver({3, 4})));
  EXPECT_FALSE(evidence.IsSuspect(PathOver({})));
}

TEST(LinkEvidence, AnswersLeaveFewerSuspects) {
  LinkEvidence evidence;
  evidence.HandleDead(kFound, PathOver({1, 2}));
  evidence.HandleAnswered(PathOver({1, 3}));
  EXPECT_FALSE(evidence.IsSuspect(PathOver({1, 4})));
  EXPECT_TRUE(evidence.IsDead(PathOver({5, 2})));
  evidence.HandleAnswered(PathOver({5, 2}));
  EXPECT_TRUE(evidence.empty());
}

TEST(LinkEvidence, IsForgottenAfterSomeSecondsAndWithItsController) {
  LinkEvidence evidence;
  evidence.HandleLook(kFound, 7);
  evidence.HandleDead(kFound, PathOver({1, 2}));
  evidence.HandleLook(kFound + LinkEvidence::kMemory - kMs, 7);
  EXPECT_FALSE(evidence.empty());
  evidence.HandleLook(kFound + LinkEvidence::kMemory, 7);
  EXPECT_TRUE(evidence.empty());
  evidence.HandleDead(kFound, PathOver({1, 2}));
  evidence.HandleLook(kFound, 8);
  EXPECT_TRUE(evidence.empty());
}

TEST(LinkEvidence, RemembersAFewPathsOnly) {
  LinkEvidence evidence;
  for (std::uint32_t i = 0; i < 2 * LinkEvidence::kMostPaths; ++i) {
    evidence.HandleDead(kFound, PathOver({2 * i, 2 * i + 1}));
  }
  EXPECT_FALSE(evidence.IsSuspect(PathOver({0, 1})));
  EXPECT_TRUE(evidence.IsDead(PathOver({62, 63})));
  EXPECT_FALSE(evidence.IsSuspect(PathOver({30, 31})));
  EXPECT_TRUE(evidence.IsDead(PathOver({32, 33})));
}

class RandomPaths {
 public:
  explicit RandomPaths(std::uint64_t seed) : random_(seed) {}
  std::set<std::uint32_t> DrawDead() {
    const Links links = Draw();
    return {links.begin(), links.end()};
  }
  wire::FlowPath DrawPath() { return PathOver(Draw()); }

 private:
  Links Draw() {
    Links links(random_() % 4 + 1);
    for (std::uint32_t& link : links) link = static_cast<std::uint32_t>(random_() % 12);
    return links;
  }
  std::mt19937_64 random_;
};

// Whatever is dead, and in whatever order it is found, no path is called dead that is alive.
TEST(LinkEvidence, CallsNoLivePathDead) {
  int called_dead = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 200)) {
    SCOPED_TRACE("ESPALIER_SEED=" + std::to_string(seed));
    RandomPaths random(seed);
    const std::set<std::uint32_t> dead = random.DrawDead();
    const auto is_dead = [&](const wire::FlowPath& path) {
      return std::ranges::any_of(path.links, [&](auto link) { return dead.contains(link); });
    };
    LinkEvidence evidence;
    for (int i = 0; i < 50; ++i) {
      const wire::FlowPath path = random.DrawPath();
      if (is_dead(path)) {
        evidence.HandleDead(kFound, path);
      } else {
        evidence.HandleAnswered(path);
        EXPECT_FALSE(evidence.IsSuspect(path));
      }
      const wire::FlowPath other = random.DrawPath();
      if (!evidence.IsDead(other)) continue;
      ++called_dead;
      EXPECT_TRUE(is_dead(other));
    }
  }
  EXPECT_GT(called_dead, 0);
}

// Flows 1, 2, ... with the ports 50,001, 50,002, ... and standby paths at 51,001, 51,002, ...
class SharedEvidenceTest : public PathGuardTest {
 protected:
  void SetUp() override { Sync(); }
  // Opens a flow, which is idle but for the first one. No links: an old controller.
  void OpenOver(std::uint64_t id, Links links, Links standby_links) {
    Open(id, id == 1 ? 64 << 20 : 0).sent_bytes = 64 << 20;
    wire::PathSet set = Set(id, Port(id));
    set.paths[0].links = std::move(links);
    set.paths.push_back({.source_port = Standby(id),
                         .weight = 0,
                         .path_id = 3,
                         .encoding = {},
                         .links = std::move(standby_links)});
    Push(Difference(1, ++generation_, {set}));
    bus_.sent.clear();
  }
  // Lets the first flow find that its path is dead, and leave it.
  void FindDead() {
    probes_.dead_ports.insert(Port(1));
    for (int i = 0; i < 200 && PortOf(1) == Port(1); ++i) Live(kMs);
    EXPECT_EQ(PortOf(1), Standby(1));
    Flow(1).remaining_bytes = 0;
  }
  FlowSample& Flow(std::uint64_t id) { return source_.flows.at(wire::LocalFlowId(id)); }
  static std::uint16_t Port(std::uint64_t id) { return static_cast<std::uint16_t>(50'000 + id); }
  static std::uint16_t Standby(std::uint64_t id) { return static_cast<std::uint16_t>(51'000 + id); }
  std::size_t ProbesOf(std::uint16_t port) const {
    return static_cast<std::size_t>(std::ranges::count(probes_.sent, port, &Probe::source_port));
  }
  bool HasEarlyMoves(int count) const {
    const std::string line = "espalier_agent_early_moves_total " + std::to_string(count);
    return metrics_.Text().find("\n" + line + "\n") != std::string::npos;
  }

  std::uint64_t generation_ = 0;
};

// The switch that answers is the last one, beyond all links of the path.
TEST_F(SharedEvidenceTest, ProbesGoAsFarAsThePathsOfTheFlow) {
  OpenOver(1, {1, 2, 3, 4}, {5, 6, 7, 8});
  FindDead();
  ASSERT_FALSE(probes_.sent.empty());
  for (const Probe& probe : probes_.sent) EXPECT_EQ(probe.ttl, 5);
}

TEST_F(SharedEvidenceTest, ASecondFlowOverTheSameLinksLeavesAfterOneCheck) {
  OpenOver(1, {1, 2}, {3, 4});
  OpenOver(2, {1, 2}, {3, 4});
  Flow(2).rtt_us = 100'000;  // alone, it would wait for 300 ms
  Flow(2).remaining_bytes = 1 << 20;
  probes_.dead_ports = {Port(2)};
  FindDead();
  Live(150 * kMs);  // its check takes 100 ms
  EXPECT_EQ(PortOf(2), Standby(2));
  EXPECT_EQ(ProbesOf(Port(2)), 1U);
  EXPECT_EQ(ProbesOf(Port(1)), 2U);
  EXPECT_TRUE(HasEarlyMoves(1));
  EXPECT_THAT(Health(), SizeIs(::testing::Ge(2)));
}

TEST_F(SharedEvidenceTest, AnIdleFlowLeavesBeforeItStartsAlsoWithoutAController) {
  OpenOver(1, {1, 2}, {3, 4});
  OpenOver(2, {1, 2}, {3, 4});
  Flow(1).remaining_bytes = 0;
  controller_alive_ = false;
  Live(10 * kSecond);
  ASSERT_EQ(agent_->state(), AgentState::kOrphan);
  ASSERT_THAT(probes_.sent, IsEmpty());
  Flow(1).remaining_bytes = 1 << 20;
  probes_.dead_ports = {Port(2)};
  FindDead();
  Live(30 * kMs);
  EXPECT_EQ(PortOf(2), Standby(2));
  EXPECT_TRUE(HasEarlyMoves(1));
}

TEST_F(SharedEvidenceTest, AFlowThatSharesOnlyTheUplinkStaysIfItsProbesAreAnswered) {
  OpenOver(1, {1, 2}, {3, 4});
  OpenOver(2, {1, 5}, {3, 6});
  FindDead();
  Live(kSecond);
  EXPECT_EQ(PortOf(2), Port(2));
  EXPECT_EQ(ProbesOf(Port(2)), 1U);  // then its links are known to be alive
  EXPECT_TRUE(HasEarlyMoves(0));
}

TEST_F(SharedEvidenceTest, AFlowThatSharesOnlyTheUplinkLeavesAfterTwoChecks) {
  OpenOver(1, {1, 2}, {3, 4});
  OpenOver(2, {1, 5}, {3, 6});
  probes_.dead_ports = {Port(2)};
  FindDead();
  Live(100 * kMs);
  EXPECT_EQ(PortOf(2), Standby(2));
  EXPECT_EQ(ProbesOf(Port(2)), 2U);
  EXPECT_TRUE(HasEarlyMoves(1));
}

TEST_F(SharedEvidenceTest, FlowsThatShareNoLinkOrHaveNoStandbyAreNotProbed) {
  OpenOver(1, {1, 2}, {3, 4});
  OpenOver(2, {3, 4}, {1, 2});
  Open(3);
  wire::PathSet set = Set(3, Port(3));
  set.paths[0].links = {1, 2};
  Push(Difference(1, ++generation_, {set}));
  Flow(3).remaining_bytes = 0;
  FindDead();
  Live(kSecond);
  EXPECT_EQ(ProbesOf(Port(2)), 0U);
  EXPECT_EQ(ProbesOf(Port(3)), 0U);
}

TEST_F(SharedEvidenceTest, AFlowThatHasMadeProgressSinceIsNotProbed) {
  OpenOver(1, {1, 2}, {3, 4});
  OpenOver(2, {1, 2}, {3, 4});
  Flow(2).remaining_bytes = 1 << 20;
  probes_.dead_ports = {Port(1)};
  for (int i = 0; i < 500; ++i) {
    Flow(2).sent_bytes += 1000;
    Live(kMs);
  }
  ASSERT_EQ(PortOf(1), Standby(1));
  EXPECT_EQ(ProbesOf(Port(2)), 0U);
}

TEST_F(SharedEvidenceTest, EvidenceIsForgottenAfterSomeSeconds) {
  OpenOver(1, {1, 2}, {3, 4});
  FindDead();
  Live(LinkEvidence::kMemory);
  OpenOver(2, {1, 2}, {3, 4});
  Live(kSecond);
  EXPECT_EQ(ProbesOf(Port(2)), 0U);
}

// What a retry or a lost acknowledgement shows is no evidence against a link.
TEST_F(SharedEvidenceTest, OnlyProbesAreEvidence) {
  OpenOver(1, {1, 2}, {3, 4});
  OpenOver(2, {1, 2}, {3, 4});
  Flow(1).protocol = wire::kProtocolTcp;
  Live(220 * kMs);
  Retry();
  Live(200 * kMs);
  ASSERT_EQ(PortOf(1), Standby(1));  // its acknowledgements are lost
  EXPECT_EQ(ProbesOf(Port(2)), 0U);
}

TEST_F(SharedEvidenceTest, AStandbyOverDeadLinksIsNotTakenUnasked) {
  OpenOver(1, {1, 2}, {3, 4});
  OpenOver(2, {5, 6}, {1, 2});
  FindDead();
  probes_.answers = false;
  Flow(2).remaining_bytes = 1 << 20;
  Live(200 * kMs);
  ++Flow(2).retries;
  Live(400 * kMs);
  EXPECT_NE(PortOf(2), Port(2));
  EXPECT_NE(PortOf(2), Standby(2));
}

TEST_F(SharedEvidenceTest, AnOldControllerThatTellsNoLinksChangesNothing) {
  OpenOver(1, {}, {});
  OpenOver(2, {}, {});
  probes_.dead_ports = {Port(2)};
  FindDead();
  Live(kSecond);
  EXPECT_EQ(PortOf(2), Port(2));
  EXPECT_EQ(ProbesOf(Port(2)), 0U);
}

TEST_F(SharedEvidenceTest, AllFlowsOverADeadLinkLeaveButHalfOfTheChecksStayFree) {
  for (std::uint64_t id = 1; id <= 200; ++id) {
    OpenOver(id, {1, 2}, {3, 4});
    probes_.dead_ports.insert(Port(id));
  }
  FindDead();
  probes_.sent.clear();
  Live(15 * kMs);  // none of the checks has ended
  EXPECT_THAT(probes_.sent, SizeIs(2 * (PathGuardOptions().max_checks / 2)));
  Live(500 * kMs);
  for (std::uint64_t id = 1; id <= 200; ++id) EXPECT_EQ(PortOf(id), Standby(id)) << id;
  EXPECT_TRUE(HasEarlyMoves(199));
}

TEST_F(SharedEvidenceTest, ChecksOfAnIdleFlowThatFindNothingBecomeRarerUntilItStarts) {
  OpenOver(1, {1, 2}, {3, 4});
  OpenOver(2, {1, 2}, {3, 4});
  probes_.dead_ports = {Port(2), Standby(2)};
  FindDead();
  Live(2 * kSecond);
  EXPECT_GE(ProbesOf(Port(2)), 2U);
  EXPECT_LE(ProbesOf(Port(2)), 5U);
  EXPECT_EQ(PortOf(2), Port(2));
  Flow(2).remaining_bytes = 64 << 20;
  probes_.dead_ports = {Port(2)};
  Live(80 * kMs);  // 30 ms of patience, and a check
  EXPECT_EQ(PortOf(2), Standby(2));
}

// Neither the path nor the standby of these flows answers, so that checks find nothing.
TEST_F(SharedEvidenceTest, ChecksOfSuspectsStayWithinTheProbeBudget) {
  for (std::uint64_t id = 1; id <= 900; ++id) {
    OpenOver(id, {1, 2}, {3, 4});
    probes_.dead_ports.insert(Port(id));
    if (id != 1) probes_.dead_ports.insert(Standby(id));
  }
  FindDead();
  probes_.sent.clear();
  Live(5 * kSecond);
  const ProbeBudgetOptions budget;
  const auto most = static_cast<std::size_t>(5.1 * budget.per_second_and_destination) +
                    budget.burst_for_destination;
  EXPECT_GT(probes_.sent.size(), 900U);
  EXPECT_LE(probes_.sent.size(), most);
  const std::size_t sent = probes_.sent.size();
  Live(kSecond);
  EXPECT_EQ(probes_.sent.size(), sent);  // the evidence is forgotten
}

}  // namespace
}  // namespace espalier::agent
