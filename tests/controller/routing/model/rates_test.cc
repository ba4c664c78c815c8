#include "controller/routing/model/rates.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/controller/routing/test_fabric.h"

namespace espalier::controller {
namespace {

class Rates : public testing::Test {
 protected:
  std::uint32_t Link(const char* link, bool forward = true) const {
    const fabric::LinkId id = *fabric_->topology.FindLink(link);
    return static_cast<std::uint32_t>(fabric::DirectedLink{id, forward}.Index());
  }
  // Rates relative to a link's, with these paths for the subflows.
  std::vector<double> Predict(const Commodities& flows, const std::vector<std::int32_t>& paths) {
    assignment_.Clear(flows);
    assignment_.paths = paths;
    std::vector<double> parts;
    for (const double rate : predictor_.Predict(flows, assignment_)) {
      parts.push_back(rate / static_cast<double>(fabric_->view.unit_bps()));
    }
    return parts;
  }
  static void ExpectNear(const std::vector<double>& rates, const std::vector<double>& expected) {
    ASSERT_EQ(rates.size(), expected.size());
    for (std::size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], expected[i], 1e-9) << i;
  }

  std::unique_ptr<Fabric> fabric_ = Fabric::LeafSpine(2, 3);
  RatePredictor predictor_{fabric_->view};
  Assignment assignment_;
};

TEST_F(Rates, FlowsShareALinkAndSlowerOnesLeaveTheRestToOthers) {
  const Commodity a{.source = 0, .destination = 1};
  const Commodity b{.source = 0, .destination = 2};
  const Commodity c{.source = 1, .destination = 2};
  ExpectNear(Predict({a}, {0}), {1});
  ExpectNear(Predict({a, b}, {0, 1}), {1, 1});
  ExpectNear(Predict({a, b}, {0, 0}), {0.5, 0.5});
  // Three at leaf 0's link to spine 0; the one to leaf 2 leaves two thirds of the way down.
  ExpectNear(Predict({a, a, b, c}, {0, 0, 0, 0}), {1.0 / 3, 1.0 / 3, 1.0 / 3, 2.0 / 3});
}

TEST_F(Rates, NicsLimitFlowsAndTheUnitRateLimitsLocalOnesWithoutNics) {
  const Commodity local{.source = 0, .destination = 0};
  Commodity bound = local;
  bound.source_link = Link("h0--leaf0");
  Commodity across{.source = 0, .destination = 1};
  across.source_link = bound.source_link;
  ExpectNear(Predict({local}, {kNoPath}), {1});
  const double nic = static_cast<double>(fabric_->view.capacities()[bound.source_link]) /
                     static_cast<double>(fabric_->view.unit_bps());
  ExpectNear(Predict({bound, across}, {kNoPath, 0}), {nic / 2, nic / 2});
  // No path: no rate, and no share of the NIC.
  ExpectNear(Predict({bound, across}, {kNoPath, kNoPath}), {nic, 0});
}

TEST_F(Rates, AFlowIsAsFastAsItsSlowestSubflow) {
  const Commodity split{.source = 0, .destination = 1, .subflows = 2};
  const Commodity whole{.source = 0, .destination = 2};
  ExpectNear(Predict({split}, {0, 1}), {2});
  // Half a flow and a whole one: a third and two thirds of the link.
  ExpectNear(Predict({split, whole}, {0, 1, 1}), {2.0 / 3, 2.0 / 3});
  ExpectNear(Predict({split}, {0, kNoPath}), {0});
}

TEST(RateScore, AJobIsAsFastAsItsSlowestFlowForItsWeight) {
  const Commodities flows = {{.job = 0}, {.job = 0}, {.job = 2}, {.job = 2}, {.job = 2}};
  const std::vector<double> rates = {4, 2, 6, 8, 0};  // the last is unroutable
  const Score plain = ComputeScore(flows, rates, {});
  EXPECT_EQ(plain.job_rates, (std::vector<double>{2, 6}));
  EXPECT_EQ(plain.total_rate, 20);
  const std::vector<std::uint32_t> weights = {1, 1, 4};
  const Score weighted = ComputeScore(flows, rates, weights);
  EXPECT_EQ(weighted.job_rates, (std::vector<double>{1.5, 2}));
}

TEST(RateScore, TheSlowestJobCountsFirstThenTheSum) {
  const auto better = [](const Score& x, const Score& y) {
    EXPECT_TRUE(IsBetter(x, y));
    EXPECT_FALSE(IsBetter(y, x));
    EXPECT_FALSE(IsBetter(x, x));
  };
  better({.job_rates = {2, 2}}, {.job_rates = {1, 9}, .total_rate = 99});
  better({.job_rates = {1, 3}}, {.job_rates = {1, 2}});
  better({.job_rates = {1}, .total_rate = 3}, {.job_rates = {1}, .total_rate = 2});
  const Score one{.job_rates = {1e9}, .total_rate = 1e9};
  const Score nearly{.job_rates = {1e9 + 0.5}, .total_rate = 1e9 + 0.5};
  EXPECT_FALSE(IsBetter(nearly, one)) << "they agree to 1e-9";
  better({.job_rates = {1e9 + 2}, .total_rate = 0}, one);
}

}  // namespace
}  // namespace espalier::controller
