#include "controller/offline/simulation/fluid_network.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "common/graph/max_min.h"

namespace espalier::offline {
namespace {

using Transfer = FluidNetwork::Transfer;

TEST(FluidNetwork, SharesALinkByWeight) {
  FluidNetwork network({100.0, 100.0});
  const std::uint32_t link[] = {0};
  const Transfer light = network.Add(link, 1, 1000);
  const Transfer heavy = network.Add(link, 3, 1000);
  network.Settle(0);
  EXPECT_DOUBLE_EQ(network.Rate(light), 25);
  EXPECT_DOUBLE_EQ(network.Rate(heavy), 75);
  EXPECT_EQ(network.NextEnd(), 14);  // 1000 / 75 = 13.3
}

TEST(FluidNetwork, SharesTheCapacityThatAnEndedTransferLeaves) {
  FluidNetwork network({10.0});
  const std::uint32_t link[] = {0};
  const Transfer brief = network.Add(link, 1, 100);
  const Transfer lasting = network.Add(link, 1, 300);
  network.Settle(0);
  ASSERT_EQ(network.NextEnd(), 20);
  EXPECT_EQ(network.TakeEnded(20), std::vector<Transfer>{brief});
  network.Settle(20);
  EXPECT_DOUBLE_EQ(network.Rate(lasting), 10);
  EXPECT_EQ(network.NextEnd(), 40);  // 100 bits in 20 ns, 200 in another 20
  EXPECT_DOUBLE_EQ(network.Remove(lasting, 30), 100);
  EXPECT_EQ(network.NextEnd(), std::nullopt);
}

TEST(FluidNetwork, MakesNoProgressOnALinkWithoutCapacity) {
  FluidNetwork network({0.0, 10.0});
  const std::uint32_t both[] = {0, 1};
  const std::uint32_t second[] = {1};
  const Transfer stuck = network.Add(both, 1, 10);
  const Transfer other = network.Add(second, 1, 10);
  network.Settle(5);
  EXPECT_EQ(network.Rate(stuck), 0);
  EXPECT_DOUBLE_EQ(network.Rate(other), 10);
  EXPECT_EQ(network.TakeEnded(6), std::vector<Transfer>{other});
  EXPECT_EQ(network.NextEnd(), std::nullopt);
}

// Computes all rates from scratch after every change, with the solver that the controller uses.
class Oracle {
 public:
  explicit Oracle(std::vector<double> capacities) : capacities_(std::move(capacities)) {}

  std::map<Transfer, std::vector<std::uint32_t>> paths;

  void Expect(const FluidNetwork& network) {
    std::vector<std::uint32_t> begin{0};
    std::vector<std::uint32_t> links;
    for (const auto& [transfer, path] : paths) {
      links.insert(links.end(), path.begin(), path.end());
      begin.push_back(static_cast<std::uint32_t>(links.size()));
    }
    const auto rates = solver_.Solve(capacities_, begin, links, 0);
    std::size_t i = 0;
    for (const auto& [transfer, path] : paths) {
      ASSERT_NEAR(network.Rate(transfer), rates[i], 1e-9 * rates[i]) << "transfer " << transfer;
      ++i;
    }
  }

 private:
  std::vector<double> capacities_;
  graph::MaxMin solver_;
};

TEST(FluidNetwork, HasTheRatesOfAFullSolutionAfterEveryChange) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::size_t link_count = 3 + random() % 40;
    std::vector<double> capacities;
    for (std::size_t i = 0; i < link_count; ++i) {
      capacities.push_back(static_cast<double>(1 + random() % 20));
    }
    FluidNetwork network(capacities);
    Oracle oracle(capacities);
    std::int64_t now = 0;
    for (int step = 0; step < 150; ++step) {
      now += static_cast<std::int64_t>(random() % 50);
      const auto next = network.NextEnd();
      if (next && *next <= now) {
        now = *next;
        for (const Transfer transfer : network.TakeEnded(now)) oracle.paths.erase(transfer);
      }
      if (random() % 4 == 0 && !oracle.paths.empty()) {
        auto victim = oracle.paths.begin();
        std::advance(victim, static_cast<long>(random() % oracle.paths.size()));
        EXPECT_GE(network.Remove(victim->first, now), 0);
        oracle.paths.erase(victim);
      }
      for (std::size_t added = random() % 4; added > 0; --added) {
        std::set<std::uint32_t> links;
        while (links.size() < std::min<std::size_t>(link_count, 1 + random() % 4)) {
          links.insert(static_cast<std::uint32_t>(random() % link_count));
        }
        const std::vector<std::uint32_t> path(links.begin(), links.end());
        oracle.paths[network.Add(path, 1, static_cast<double>(1 + random() % 5000))] = path;
      }
      network.Settle(now);
      oracle.Expect(network);
    }
  }
}

// The bits that the rates and times account for equal the bits of the transfers.
TEST(FluidNetwork, CarriesEveryBitOnce) {
  std::mt19937_64 random(7);
  FluidNetwork network({8.0, 4.0, 2.0});
  std::map<Transfer, double> sent;
  std::map<Transfer, double> total;
  std::int64_t now = 0;
  for (int i = 0; i < 12; ++i) {
    const std::uint32_t path[] = {static_cast<std::uint32_t>(random() % 3)};
    const double bits = static_cast<double>(50 + random() % 900);
    total[network.Add(path, 1, bits)] = bits;
  }
  network.Settle(now);
  while (const auto next = network.NextEnd()) {
    for (auto& [transfer, bits] : total) {
      sent[transfer] += network.Rate(transfer) * static_cast<double>(*next - now);
    }
    now = *next;
    for (const Transfer transfer : network.TakeEnded(now)) {
      // Times are whole nanoseconds, so at most one nanosecond too long.
      EXPECT_GE(sent[transfer], total[transfer] - 1e-6);
      EXPECT_LT(sent[transfer], total[transfer] + 8);
      total.erase(transfer);
    }
    network.Settle(now);
  }
  EXPECT_TRUE(total.empty());
}

}  // namespace
}  // namespace espalier::offline
