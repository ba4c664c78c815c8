#include "controller/routing/job_exchanges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using fabric::LinkState;

constexpr double kWorth = 1;
constexpr JobExchanges::Limits kLimits{
    .worth = kWorth, .most_moves = 128, .chain = {.max_moves = 64}};

// One flow from each host, each of which belongs to the job of its number within the leaf.
class JobExchangesTest : public testing::Test {
 protected:
  void Open(int leaves, int hosts, std::uint64_t seed, const std::vector<std::string>& dead) {
    topology_.emplace(*fabric::Topology::Build(
        *fabric::BuildLeafSpine({.spines = hosts, .leaves = leaves, .hosts_per_leaf = hosts})));
    for (const std::string& link : dead) {
      topology_->SetLinkState(*topology_->FindLink(link), LinkState::kDown);
    }
    paths_.emplace(*topology_);
    view_.emplace(*topology_, *paths_);
    assigner_.emplace(*view_);
    senders_.clear();
    std::mt19937_64 random(seed);
    const auto hosts_per_leaf = static_cast<std::uint32_t>(hosts);
    const auto leaf_count = static_cast<std::uint32_t>(leaves);
    std::vector<std::uint32_t> shifts;  // to another leaf, by number of the host
    for (int host = 0; host < hosts; ++host) {
      shifts.push_back(1 + static_cast<std::uint32_t>(random() % (leaf_count - 1)));
    }
    for (std::uint32_t host = 0; host < leaf_count * hosts_per_leaf; ++host) {
      const std::uint32_t job = host % hosts_per_leaf;
      const std::uint32_t leaf = host / hosts_per_leaf;
      const SubflowId id = assigner_->Add(leaf, (leaf + shifts[job]) % leaf_count);
      assigner_->Start(id, {.max_moves = 64});
      senders_.push_back({.subflow = id, .job = job, .nic_bps = 1e12});
    }
    debts_.assign(static_cast<std::size_t>(hosts), 0);
    idle_.assign(view_->capacities().size(), 0);
  }
  JobExchanges Exchanges() const { return {*view_, *assigner_, senders_, idle_}; }
  std::set<std::uint32_t> Slowed() const { return Exchanges().SlowedJobs(); }
  JobExchanges::Choice Choose() { return Exchanges().Choose(*assigner_, debts_, kLimits); }
  std::vector<std::int32_t> Paths() const {
    std::vector<std::int32_t> paths;
    for (const Sender& sender : senders_) paths.push_back(assigner_->PathOf(sender.subflow));
    return paths;
  }
  void Take(const JobExchanges::Choice& choice) {
    for (const OnlineAssigner::Move& move : choice.moves) assigner_->Place(move.subflow, move.to);
  }
  double Squares() const {
    double sum = 0;
    for (const std::int64_t load : assigner_->Loads()) {
      const double flows = static_cast<double>(load) / static_cast<double>(kLoadUnit);
      sum += flows * flows;
    }
    return sum;
  }

  std::optional<fabric::Topology> topology_;
  std::optional<fabric::PathTable> paths_;
  std::optional<FabricView> view_;
  std::optional<OnlineAssigner> assigner_;
  std::vector<Sender> senders_;
  std::vector<double> debts_;
  std::vector<std::int64_t> idle_;
};

TEST_F(JobExchangesTest, FreesTheJobsOfMostDebtAndHarmsNobodyElse) {
  int freed = 0;
  for (const std::uint64_t seed : SeedsToTry(1, 40)) {
    Open(4, 8, seed, {"leaf0--spine0"});
    const auto before = Slowed();
    ASSERT_FALSE(before.empty());
    for (const std::uint32_t job : before) debts_[job] = 2;
    const auto paths = Paths();
    const Load most = assigner_->MaxLoad();
    const double squares = Squares();
    const auto choice = Choose();
    EXPECT_EQ(Paths(), paths) << "seed " << seed;
    Take(choice);
    EXPECT_EQ(choice.moves.empty(), choice.exchanged.empty());
    EXPECT_LE(assigner_->MaxLoad(), most) << "seed " << seed;
    EXPECT_LE(Squares(), squares + 1e-9) << "seed " << seed;
    const auto after = Slowed();
    if (choice.exchanged.empty()) continue;
    freed += static_cast<int>(
        std::ranges::count_if(before, [&](std::uint32_t job) { return !after.contains(job); }));
  }
  EXPECT_GE(freed, 40);
}

TEST_F(JobExchangesTest, LetsTheSameJobsBeSlowedAtAllLeaves) {
  for (const std::uint64_t seed : SeedsToTry(1, 20)) {
    Open(4, 8, seed, {"leaf0--spine0", "leaf2--spine3"});
    const std::size_t before = Slowed().size();
    for (int round = 0; round < 8; ++round) Take(Choose());
    EXPECT_LE(Slowed().size(), before) << "seed " << seed;
    EXPECT_TRUE(Choose().exchanged.empty()) << "it comes to rest, seed " << seed;
  }
}

TEST_F(JobExchangesTest, DoesNothingForDebtsThatDifferByLess) {
  Open(4, 8, 1, {"leaf0--spine0"});
  for (int round = 0; round < 8; ++round) Take(Choose());
  for (const std::uint32_t job : Slowed()) debts_[job] = kWorth / 2;
  EXPECT_TRUE(Choose().moves.empty());
}

TEST_F(JobExchangesTest, NobodyIsSlowedOnAWholeFabricOrByNicsAsNarrow) {
  Open(4, 8, 1, {});
  EXPECT_TRUE(Slowed().empty());
  EXPECT_FALSE(JobExchanges::MayBeUneven(*view_, assigner_->Loads()));
  Open(4, 8, 1, {"leaf0--spine0"});
  EXPECT_FALSE(Slowed().empty());
  EXPECT_TRUE(JobExchanges::MayBeUneven(*view_, assigner_->Loads()));
  for (Sender& sender : senders_) sender.nic_bps = static_cast<double>(view_->unit_bps()) / 2;
  EXPECT_TRUE(Slowed().empty()) << "half of a link is as much as their NICs leave them";
}

TEST_F(JobExchangesTest, FlowsThatNoLinkSlowsTakeThePlaces) {
  Open(4, 8, 1, {"leaf0--spine0"});
  const auto slowed = Slowed();
  for (Sender& sender : senders_) {
    if (!slowed.contains(sender.job)) sender.nic_bps = static_cast<double>(view_->unit_bps()) / 2;
  }
  for (int round = 0; round < 4; ++round) Take(Choose());
  EXPECT_LT(Slowed().size(), slowed.size()) << "without any debt";
}

TEST_F(JobExchangesTest, MovesNoMoreThanItMay) {
  Open(4, 8, 1, {"leaf0--spine0"});
  for (const std::uint32_t job : Slowed()) debts_[job] = 2;
  JobExchanges::Limits limits = kLimits;
  limits.most_moves = 1;
  const auto choice = Exchanges().Choose(*assigner_, debts_, limits);
  EXPECT_TRUE(choice.moves.empty());
  EXPECT_TRUE(choice.is_refused);
  for (Sender& sender : senders_) sender.may_move = false;
  EXPECT_TRUE(Choose().moves.empty());
}

}  // namespace
}  // namespace espalier::controller
