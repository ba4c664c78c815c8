#include "controller/paths/operator_probes.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class Probing : public testing::Test {
 protected:
  OperatorProbes::Request Ask(std::vector<std::uint16_t> ports = {50'000, 50'001}) {
    return {.source = "h0", .destination = "h2", .ports = std::move(ports)};
  }
  Result<OperatorProbes::Order> Begin(const OperatorProbes::Request& request) {
    return probes_.Begin(
        request, [this](fabric::NodeId) { return has_agent_; }, TimePoint(),
        [this](Result<ProbedPair> result) {
          ++results_;
          result_ = std::move(result);
        });
  }
  // The answer of the switch behind this hop of the path over that spine.
  wire::ProbeAnswer Answer(std::uint16_t port, int spine, std::uint8_t hop) {
    const auto paths = paths_.Between(*topology_.FindNode("leaf0"), *topology_.FindNode("leaf1"));
    const auto direction = paths[static_cast<std::size_t>(spine)].hops[hop];
    const fabric::Link& link = topology_.link(direction.link);
    return {port, static_cast<std::uint8_t>(hop + 2),
            direction.forward ? link.b_address : link.a_address, 40U + hop};
  }
  void Report(const wire::ProbeReport& report) {
    probes_.HandleReport(report, [](fabric::NodeId) { return true; });
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 4, .leaves = 2, .hosts_per_leaf = 2}));
  fabric::PathTable paths_{topology_};
  OperatorProbes probes_{topology_, paths_};
  bool has_agent_ = true;
  int results_ = 0;
  std::optional<Result<ProbedPair>> result_;
};

TEST_F(Probing, TellsThePathOfEachPort) {
  const auto order = Begin(Ask());
  ASSERT_TRUE(order) << order.error().message;
  EXPECT_EQ(order->order.ttls, (std::vector<std::uint8_t>{2, 3}));
  EXPECT_EQ(OwnerOfOrder(order->order.order), ProbeOwner::kOperator);
  Report({.order = order->order.order,
          .answers = {Answer(50'000, 3, 0), Answer(50'000, 3, 1), Answer(50'001, 1, 0)}});
  EXPECT_EQ(results_, 0) << "it is not done";
  Report({.order = order->order.order, .done = true});
  ASSERT_EQ(results_, 1);
  ASSERT_TRUE(result_->has_value());
  const ProbedPort& complete = (*result_)->ports[0];
  EXPECT_EQ(complete.path, fabric::PathIndex(3));
  EXPECT_EQ(complete.hops_answered, 2);
  EXPECT_EQ(complete.rtt_us, 41U);
  const ProbedPort& partial = (*result_)->ports[1];
  EXPECT_EQ(partial.path, fabric::PathIndex(1));
  EXPECT_EQ(partial.hops_answered, 1) << "nobody answered behind the spine";
}

TEST_F(Probing, IgnoresAnswersThatWereNotAskedFor) {
  const auto order = Begin(Ask({50'000}));
  ASSERT_TRUE(order);
  wire::ProbeReport report{.order = order->order.order, .done = true};
  report.answers = {Answer(50'001, 1, 0),
                    {50'000, 9, topology_.node(order->source).addresses[0], 1}};
  probes_.HandleReport(report, [](fabric::NodeId) { return false; });
  EXPECT_EQ(results_, 0) << "of another agent";
  Report(report);
  ASSERT_TRUE(result_.has_value() && result_->has_value());
  EXPECT_FALSE((*result_)->ports[0].path);
  EXPECT_EQ((*result_)->ports[0].hops_answered, 0);
}

TEST_F(Probing, TellsWhatItCannotProbe) {
  const auto expect = [&](const OperatorProbes::Request& request, ErrorCode code) {
    const auto order = Begin(request);
    ASSERT_FALSE(order);
    EXPECT_EQ(order.error().code, code) << order.error().message;
  };
  expect({.source = "nobody", .destination = "h2", .ports = {1}}, ErrorCode::kNotFound);
  expect({.source = "h0", .destination = "spine1", .ports = {1}}, ErrorCode::kNotFound);
  expect({.source = "h0", .destination = "h1", .ports = {1}}, ErrorCode::kFailedPrecondition);
  expect({.source = "h0", .destination = "h0", .ports = {1}}, ErrorCode::kFailedPrecondition);
  expect(Ask({}), ErrorCode::kInvalidArgument);
  expect(Ask(SpreadPorts(OperatorProbes::kMaxPorts + 1)), ErrorCode::kInvalidArgument);
  has_agent_ = false;
  expect(Ask(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(results_, 0);
}

TEST_F(Probing, HandsOnTheAgentsError) {
  const auto order = Begin(Ask());
  Report({.order = order->order.order, .done = true, .error = "no raw sockets"});
  ASSERT_TRUE(result_.has_value());
  ASSERT_FALSE(result_->has_value());
  EXPECT_EQ(result_->error().message, "the agent of h0 cannot probe: no raw sockets");
}

TEST_F(Probing, LimitsRequestsAndEndsThoseThatAreNotAnswered) {
  for (std::size_t i = 0; i < OperatorProbes::kMaxOpen; ++i) ASSERT_TRUE(Begin(Ask()));
  const auto one_more = Begin(Ask());
  ASSERT_FALSE(one_more);
  EXPECT_EQ(one_more.error().code, ErrorCode::kResourceExhausted);
  probes_.Expire(TimePoint() + 1s);
  EXPECT_EQ(results_, 0);
  probes_.Expire(TimePoint() + 60s);
  EXPECT_EQ(results_, static_cast<int>(OperatorProbes::kMaxOpen));
  ASSERT_FALSE(result_->has_value());
  EXPECT_EQ(result_->error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(Begin(Ask()));
}

TEST(SpreadPorts, GivesDifferentPortsOfRoce) {
  const auto ports = SpreadPorts(64);
  const std::set<std::uint16_t> different(ports.begin(), ports.end());
  EXPECT_EQ(different.size(), 64U);
  EXPECT_GE(*different.begin(), 0xC000);
  EXPECT_EQ(SpreadPorts(2, 65'535)[0], 65'535);
  EXPECT_EQ(SpreadPorts(1, 1'000), std::vector<std::uint16_t>{1'000});
}

}  // namespace
}  // namespace espalier::controller
