#include "controller/paths/models/path_reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "common/fabric/builders.h"
#include "controller/paths/path_learner.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using fabric::PathIndex;
using fabric::PortKey;
using namespace std::chrono_literals;

// Two hosts under two leaves, with one path for each spine, and no hash that anybody knows.
class ProbedPair {
 public:
  explicit ProbedPair(int spines)
      : topology_(*fabric::Topology::Build(
            *fabric::BuildLeafSpine({.spines = spines, .leaves = 2, .hosts_per_leaf = 1}))) {}

  // Asks for ports of this path, and answers `rounds` orders for them: `path_of` gives the path on
  // which a port is seen, or none if it is not answered. Returns how many ports were probed until
  // paths were found unreachable, or all in all.
  template <typename PathOf>
  std::size_t Probe(PathIndex path, int rounds, PathOf path_of) {
    std::size_t probed = 0;
    for (int round = 0; round < rounds && Unreachable().empty(); ++round) {
      learner_.RequestPort(key_, path);
      now_ += 10s;
      for (const auto& order : learner_.TakeOrders(now_, [](fabric::NodeId) { return true; })) {
        probed += order.order.source_ports.size();
        Answer(order.order, path_of);
      }
    }
    return probed;
  }
  std::set<int> Unreachable() const {
    std::set<int> found;
    for (const PathIndex path : FindUnreachable(map_, key_, between_)) found.insert(path.value());
    return found;
  }

 private:
  template <typename PathOf>
  void Answer(const wire::ProbeOrder& order, PathOf path_of) {
    // First all answers but the end of the order: parts are no ground for a conclusion.
    wire::ProbeReport report{.order = order.order};
    for (const std::uint16_t port : order.source_ports) {
      const std::optional<PathIndex> path = path_of(port);
      for (const std::uint8_t ttl : order.ttls) {
        if (!path) continue;
        const auto hop = between_[path->Index()].hops[ttl - 2U];
        const fabric::Link& link = topology_.link(hop.link);
        report.answers.push_back({port, ttl, hop.forward ? link.b_address : link.a_address, 100});
      }
    }
    learner_.HandleReport(report, [](fabric::NodeId) { return true; });
    EXPECT_TRUE(Unreachable().empty()) << "more answers may come";
    learner_.HandleReport({.order = order.order, .done = true},
                          [](fabric::NodeId) { return true; });
  }

  fabric::Topology topology_;
  fabric::PathTable paths_{topology_};
  fabric::PathMap map_;
  Metrics metrics_;
  PathLearner learner_{topology_, paths_, map_, {}, metrics_};
  const PortKey key_{.source = *topology_.FindNode("h0"), .destination = *topology_.FindNode("h1")};
  const std::span<const fabric::Path> between_ =
      paths_.Between(*topology_.FindNode("leaf0"), *topology_.FindNode("leaf1"));
  TimePoint now_{};
};

// Of so many paths the last has no ports, and so many per cent of the probes are lost.
struct Losses {
  int paths;
  int percent;
};
class PathReachWithLosses : public testing::TestWithParam<Losses> {};

TEST_P(PathReachWithLosses, FindsThePathWithoutPorts) {
  const int paths = GetParam().paths;
  const int percent = GetParam().percent;
  const PathIndex last(paths - 1);
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    std::mt19937_64 random(seed);
    ProbedPair pair(paths);
    const auto path_of = [&](std::uint16_t port) -> std::optional<PathIndex> {
      if (static_cast<int>(random() % 100) < percent) return std::nullopt;
      return PathIndex(static_cast<int>(std::mt19937_64(port + seed * 65'536)() %
                                        static_cast<unsigned>(paths - 1)));
    };
    const std::size_t probed = pair.Probe(last, 500, path_of);
    EXPECT_EQ(pair.Unreachable(), std::set<int>{last.value()}) << "seed " << seed;
    EXPECT_LE(probed, 8 * EnoughPortsToReach(static_cast<std::size_t>(paths))) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PathReachWithLosses,
                         testing::Values(Losses{2, 0}, Losses{2, 30}, Losses{4, 5}, Losses{4, 30},
                                         Losses{16, 2}, Losses{16, 15}, Losses{16, 30}),
                         [](const auto& test) {
                           return std::to_string(test.param.paths) + "Paths" +
                                  std::to_string(test.param.percent) + "PercentLost";
                         });

// Whether its switches give no answers, or only answers that come too late, and whatever share of
// the other paths' answers is lost.
TEST(PathReach, ConcludesNothingFromThePathThatAloneIsSilent) {
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    for (const int paths : {2, 4, 16}) {
      for (const unsigned percent : {0U, 30U}) {
        std::mt19937_64 random(seed);
        ProbedPair pair(paths);
        const PathIndex last(paths - 1);
        pair.Probe(last, 200, [&](std::uint16_t port) -> std::optional<PathIndex> {
          const auto path = std::mt19937_64(port + seed * 65'536)() % static_cast<unsigned>(paths);
          if (random() % 100 < percent || static_cast<int>(path) == last.value()) {
            return std::nullopt;
          }
          return PathIndex(static_cast<int>(path));
        });
        EXPECT_TRUE(pair.Unreachable().empty()) << paths << " paths, seed " << seed;
      }
    }
  }
}

// A path whose answers came late has its ports among those that are probed again.
TEST(PathReach, ProbesSilentPortsAgain) {
  ProbedPair pair(2);
  std::set<std::uint16_t> silent;
  pair.Probe(PathIndex(1), 2, [&](std::uint16_t port) -> std::optional<PathIndex> {
    silent.insert(port);
    return std::nullopt;
  });
  std::size_t again = 0;
  std::size_t others = 0;
  pair.Probe(PathIndex(1), 2 * static_cast<int>(silent.size()),
             [&](std::uint16_t port) -> std::optional<PathIndex> {
               ++(silent.erase(port) > 0 ? again : others);
               return std::nullopt;
             });
  EXPECT_TRUE(silent.empty()) << "each in its turn";
  EXPECT_GT(again, 0U);
  EXPECT_GT(others, again) << "new ports, too";
}

TEST(PathReach, CountsSilentPortsAgainstTheEvenShareOfAPath) {
  // Without silence it is the number of ports of which chance leaves no path out.
  for (const std::size_t paths : {2U, 4U, 16U, 64U}) {
    const std::size_t enough = EnoughPortsToReach(paths);
    EXPECT_TRUE(AreEnough(enough, 0, paths)) << paths;
    EXPECT_FALSE(AreEnough(enough - 1, 0, paths)) << paths;
    EXPECT_FALSE(AreEnough(enough, 1, paths)) << paths;
  }
  EXPECT_FALSE(AreEnough(0, 0, 2));
  EXPECT_FALSE(AreEnough(30, 30, 2)) << "all of a path of two";
  EXPECT_FALSE(AreEnough(3'000'000, 1'000'000, 4));
  EXPECT_FALSE(AreEnough(15'000, 1'000, 16));
  EXPECT_TRUE(AreEnough(15'000, 500, 16)) << "half of a share";
  EXPECT_TRUE(AreEnough(1'000, 19, 16));
}

// The bound against the distribution itself, summed term by term.
TEST(PathReach, ErrsLessOftenThanItPromises) {
  for (const std::size_t paths : {2U, 4U, 16U}) {
    const double share = 1.0 / static_cast<double>(paths);
    for (std::size_t all = 1; all <= 2'000; all += 7) {
      double chance = 0;  // that an even share of `all` ports is at most `silent` ports
      for (std::size_t silent = 0; silent < all; ++silent) {
        const auto n = static_cast<double>(all);
        const auto k = static_cast<double>(silent);
        chance += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) +
                           k * std::log(share) + (n - k) * std::log1p(-share));
        if (!AreEnough(all - silent, silent, paths)) break;
        EXPECT_LE(chance, 1e-6 * share) << all << " ports, " << silent << " silent";
      }
    }
  }
}

class PathReachOfMap : public testing::Test {
 protected:
  void Conclude() { map_.PredictNone(kKey, ConcludeUnreachable(map_, kKey, paths_.size())); }
  bool IsUnreachable(int path) const {
    return controller::IsUnreachable(map_, kKey, paths_, PathIndex(path));
  }

  static constexpr PortKey kKey{};
  fabric::Topology topology_ =
      *fabric::Topology::Build(*fabric::BuildLeafSpine({.spines = 4, .leaves = 2}));
  fabric::PathTable table_{topology_};
  const std::span<const fabric::Path> paths_ =
      table_.Between(*topology_.FindNode("leaf0"), *topology_.FindNode("leaf1"));
  fabric::PathMap map_;
};

TEST_F(PathReachOfMap, DoesNotCountPortsThatWereChosenForTheirPath) {
  for (std::uint16_t port = 50'000; port < 50'200; ++port) {
    map_.Predict(kKey, port, PathIndex(0));
    if (port % 2 == 0) map_.Observe(kKey, port, PathIndex(0));
  }
  Conclude();
  EXPECT_TRUE(FindUnreachable(map_, kKey, paths_).empty()) << "nobody has asked for other paths";
  EXPECT_FALSE(IsUnreachable(1));
  map_.PredictNone(kKey, {PathIndex(0), PathIndex(2)});
  EXPECT_EQ(FindUnreachable(map_, kKey, paths_), std::vector{PathIndex(2)});
  EXPECT_TRUE(IsUnreachable(2));
  EXPECT_FALSE(IsUnreachable(0)) << "a port takes it";
}

TEST_F(PathReachOfMap, FindsThePathsThatEachTestCallsUnreachable) {
  for (std::uint16_t port = 0; port < 70; ++port) {
    Conclude();
    const std::vector<PathIndex> found = FindUnreachable(map_, kKey, paths_);
    EXPECT_EQ(found.empty(), port < EnoughPortsToReach(4)) << port;
    for (std::int32_t path = 0; path < 4; ++path) {
      EXPECT_EQ(std::ranges::count(found, PathIndex(path)), IsUnreachable(path)) << port;
    }
    map_.Observe(kKey, static_cast<std::uint16_t>(50'000 + port), PathIndex(port % 2 * 3));
  }
  EXPECT_EQ(FindUnreachable(map_, kKey, paths_).size(), 2U);
  map_.Observe(kKey, 60'000, PathIndex(1));
  EXPECT_EQ(FindUnreachable(map_, kKey, paths_), std::vector{PathIndex(2)}) << "1 has a port";
  map_.MarkReverify([](const PortKey&) { return true; });
  EXPECT_TRUE(FindUnreachable(map_, kKey, paths_).empty()) << "the fabric has changed";
}

TEST(PathReach, NeedsSoManyPortsThatChanceLeavesOutNone) {
  EXPECT_EQ(EnoughPortsToReach(4), 61U);
  EXPECT_EQ(EnoughPortsToReach(16), 266U);
}

}  // namespace
}  // namespace espalier::controller
