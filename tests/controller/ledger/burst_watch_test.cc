// Tests which bursts are seen in the reports of agents.
#include "controller/ledger/burst_watch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "controller/agents/flow_intake.h"
#include "tests/controller/agents/flow_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class Watch : public FlowFixture {
 protected:
  Watch() {
    for (int i = 0; i < 4; ++i) {
      state_.agents.At(Agent("h" + std::to_string(i))).reported = true;
    }
  }
  // A flow of a job from a host to another one, with so many bytes to send.
  void Open(const std::string& from, const std::string& to, std::uint64_t id, std::uint64_t bytes,
            const std::string& job = "job") {
    wire::FlowReport report = Opening(++sequences_[from], {id}, from, to);
    report.jobs = {job};
    report.opened.front().protocol = wire::kProtocolUdp;
    report.opened.front().destination_port = 4'791;
    report.opened.front().source_port = static_cast<std::uint16_t>(50'000 + id % 4);
    report.progress = {{.id = wire::LocalFlowId(id), .remaining_bytes = bytes}};
    ASSERT_TRUE(intake_.Handle(Agent(from), report));
  }
  void Progress(const std::string& from, std::uint64_t id, std::uint64_t remaining) {
    wire::FlowReport report;
    report.sequence = ++sequences_[from];
    report.progress = {{.id = wire::LocalFlowId(id), .remaining_bytes = remaining}};
    ASSERT_TRUE(intake_.Handle(Agent(from), report));
  }
  void End(const std::string& from, std::uint64_t id) {
    ASSERT_TRUE(intake_.Handle(Agent(from), Ending(++sequences_[from], {wire::LocalFlowId(id)})));
  }
  std::optional<SeenBurst> TakeNext() { return watch_.TakeNext(loop_->Now()); }

  std::map<std::string, std::uint64_t> sequences_;
  BurstWatch watch_{state_, learner_};
  FlowIntake intake_{state_, placement_,          bursts_, predictor_,
                     watch_, controller_options_, *loop_,  [] {}};
};

TEST_F(Watch, TakesABurstOnceItIsOver) {
  Open("h0", "h1", 1, 1'000);
  Open("h2", "h1", 1, 3'000);
  world_.RunFor(100ms);
  Progress("h0", 1, 0);
  world_.RunFor(100ms);
  EXPECT_FALSE(TakeNext()) << "one flow still sends";
  Progress("h2", 1, 0);
  EXPECT_FALSE(TakeNext()) << "it may go on";
  world_.RunFor(60ms);
  const auto seen = TakeNext();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->job, "job");
  EXPECT_EQ(seen->duration, 200ms);
  EXPECT_EQ(seen->own, 2U);
  ASSERT_EQ(seen->flows.size(), 2U);
  EXPECT_EQ(seen->flows[0].bytes + seen->flows[1].bytes, 4'000);
  EXPECT_EQ(seen->placing, Placing::kEcmp);
  EXPECT_EQ(seen->gpus, 0U) << "the hosts' GPUs are not in the topology";
  EXPECT_FALSE(TakeNext());
}

TEST_F(Watch, KnowsThePathOfAPortThatWasSeen) {
  Open("h0", "h1", 2, 1'000);
  state_.path_map.Observe(state_.flows.At(FlowSlot(0)).key, 50'002, fabric::PathIndex(3));
  Progress("h0", 2, 0);
  world_.RunFor(1s);
  const auto seen = TakeNext();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->flows.front().own_path, 3);
}

TEST_F(Watch, CountsFlowsThatAreClosedInTheBurst) {
  Open("h0", "h1", 1, 1'000);
  Open("h2", "h1", 2, 3'000);
  world_.RunFor(100ms);
  End("h0", 1);
  Open("h0", "h3", 3, 500, "other");  // takes the place of the closed flow
  Progress("h2", 2, 0);
  End("h2", 2);
  world_.RunFor(1s);
  std::map<std::string, SeenBurst> seen;
  while (const auto next = TakeNext()) seen[next->job] = *next;
  ASSERT_TRUE(seen.contains("job"));
  EXPECT_EQ(seen["job"].own, 2U);
  EXPECT_FALSE(seen.contains("other")) << "it still sends";
}

TEST_F(Watch, AddsThePartOfOtherJobsThatLiesWithin) {
  Open("h0", "h1", 1, 8'000, "long");
  world_.RunFor(200ms);
  Open("h2", "h1", 1, 1'000, "short");
  world_.RunFor(200ms);
  Progress("h2", 1, 0);
  Progress("h0", 1, 0);
  world_.RunFor(1s);
  std::map<std::string, SeenBurst> seen;
  while (const auto next = TakeNext()) seen[next->job] = *next;
  ASSERT_EQ(seen.size(), 2U);
  ASSERT_EQ(seen["short"].flows.size(), 2U);
  EXPECT_EQ(seen["short"].own, 1U);
  EXPECT_DOUBLE_EQ(seen["short"].flows[1].bytes, 4'000) << "half of the long burst";
  ASSERT_EQ(seen["long"].flows.size(), 2U);
  EXPECT_DOUBLE_EQ(seen["long"].flows[1].bytes, 1'000);
}

TEST_F(Watch, CountsBurstsThatNobodyTook) {
  Open("h0", "h1", 1, 1'000);
  for (int i = 0; i < 4; ++i) {
    Progress("h0", 1, 0);
    world_.RunFor(100ms);
    Progress("h0", 1, 1'000);
    world_.RunFor(100ms);
  }
  Progress("h0", 1, 0);
  world_.RunFor(100ms);
  const auto seen = TakeNext();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->skipped, 4U);
  EXPECT_EQ(watch_.finished(), 5U);
}

TEST_F(Watch, EndsABurstThatLastsTooLong) {
  Open("h0", "h1", 1, 1'000);
  world_.RunFor(BurstWatch::kLongest + 1s);
  const auto seen = TakeNext();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->duration, BurstWatch::kLongest + 1s);
  Progress("h0", 1, 5'000);  // the flow goes on
  Progress("h0", 1, 0);
  world_.RunFor(1s);
  const auto next = TakeNext();
  ASSERT_TRUE(next);
  EXPECT_DOUBLE_EQ(next->flows.front().bytes, 4'000);
}

TEST_F(Watch, SaysWhichFlowsAreSteered) {
  Open("h0", "h1", 1, 1'000);
  placement_.PlaceNew(predictor_, 0);
  const Flow& flow = state_.flows.At(FlowSlot(0));
  ASSERT_EQ(flow.subflows.size(), 1U);
  const std::int32_t path = state_.flow_paths.PathOf(flow.subflows.front())->value();
  state_.path_map.Observe(flow.key, 50'700, fabric::PathIndex(path));
  placement_.HandleFindings(flow.key);
  placement_.RevisitSome({});
  ASSERT_NE(flow.subflows.front().port, 0);
  Progress("h0", 1, 0);
  world_.RunFor(1s);
  const auto seen = TakeNext();
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->placing, Placing::kSteered);
  EXPECT_EQ(seen->flows.front().paths[0], path);
}

// What a host reports is a claim, of any size.
class HostileBursts : public Watch {
 protected:
  // Flows as a hostile agent might claim them: they become busy, send, and are closed.
  void Claim(std::size_t flows, const std::string& job) {
    std::vector<MessageChange> changes;
    for (std::size_t i = 0; i < flows; ++i) {
      Flow flow;
      flow.agent = Agent("h0");
      flow.local = wire::LocalFlowId(i + 1);
      flow.job = state_.flows.JobIndex(job, flow.agent);
      changes.push_back({state_.flows.Open(std::move(flow)), false, true, 1, loop_->Now()});
    }
    watch_.HandleChanges(changes);
    for (const MessageChange& change : changes) {
      watch_.Leave(change.slot, loop_->Now());
      state_.flows.Close(change.slot);
    }
  }
};

TEST_F(HostileBursts, OfAMillionFlowsTakeBoundedMemory) {
  for (int i = 0; i < 200; ++i) Claim(5'000, "job");
  EXPECT_EQ(watch_.kept(), BurstWatch::kMostFlows);
  world_.RunFor(1s);
  EXPECT_FALSE(TakeNext()) << "it is not whole";
  EXPECT_EQ(watch_.finished(), 1U) << "it is counted";
  world_.RunFor(BurstWatch::kPast);
  EXPECT_FALSE(TakeNext());
  EXPECT_EQ(watch_.kept(), 0U);
}

TEST_F(HostileBursts, OfManyJobsTakeBoundedMemory) {
  for (int i = 0; i < 100; ++i) Claim(3'000, "job" + std::to_string(i));
  EXPECT_EQ(watch_.kept(), BurstWatch::kMostKept);
  world_.RunFor(BurstWatch::kPast + 1s);
  while (TakeNext()) {
  }
  EXPECT_FALSE(TakeNext()) << "old bursts are dropped";
  EXPECT_EQ(watch_.kept(), 0U);
}

}  // namespace
}  // namespace espalier::controller
