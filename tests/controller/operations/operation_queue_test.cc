// Tests the order of operators' actions, on a target and a store whose answers the test releases.
#include "controller/operations/operation_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "common/sim/sim_world.h"
#include "controller/store/memory_store.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

constexpr Duration kPatience = 100ms;

// A store whose calls the test completes.
class HeldStore : public MemoryStore {
 public:
  using MemoryStore::MemoryStore;

  void Commit(StoreChange change, Done<Committed> done) override {
    waiting_.emplace_back(std::move(change), std::move(done));
    if (!holds) Release();
  }
  void Release() {
    auto [change, done] = std::move(waiting_.front());
    waiting_.pop_front();
    MemoryStore::Commit(std::move(change), std::move(done));
  }
  void FinishAudit(std::uint64_t sequence, std::vector<AuditMove> moves, Done<void> done) override {
    ++finished;
    MemoryStore::FinishAudit(sequence, std::move(moves), std::move(done));
  }
  std::size_t waiting() const { return waiting_.size(); }

  bool holds = false;
  int finished = 0;

 private:
  std::deque<std::pair<StoreChange, Done<Committed>>> waiting_;
};

// Records the calls, and moves the flows of `moves_of`.
class FakeTarget : public ActionTarget {
 public:
  explicit FakeTarget(State& state) : state_(state) {}

  ActionOutcome Try(const Intents& intents) override {
    calls.push_back("try " + std::to_string(intents.failed_links.size()));
    return {};
  }
  AppliedAction Apply(const Intents& intents) override {
    calls.emplace_back("apply");
    state_.intents = intents;
    AppliedAction applied;
    for (const AgentId agent : moves_of) applied.rerouted.emplace_back().agent = agent;
    return applied;
  }
  ActionOutcome Reassign(const OperatorRequest& request) override {
    calls.emplace_back(request.dry_run ? "try to reassign" : "reassign");
    ActionOutcome outcome;
    outcome.moves = {{.flow = "h0:1", .job = "job", .from = "spine0", .to = "spine1"}};
    return outcome;
  }
  void Turn() override {
    calls.emplace_back("turn");
    for (const AgentId agent : moves_of) ++state_.agents.At(agent).generation;
  }
  void ComputeOutcome(AppliedAction& /*applied*/) override { calls.emplace_back("outcome"); }

  std::vector<AgentId> moves_of;
  Words calls;

 private:
  State& state_;
};

class Queue : public testing::Test {
 protected:
  // An operation of this name, which fails the link of the same name.
  Operation Named(const std::string& name) {
    Operation operation;
    operation.action = "fail link";
    operation.target = name;
    operation.request.actor = "ada";
    operation.event = "link_failed";
    operation.subject = "link=" + name;
    operation.change = [this, name]() -> Result<Intents> {
      Intents intents = state_.intents;
      if (!intents.failed_links.try_emplace(name).second) {
        return Fail(ErrorCode::kAlreadyExists, "it is so");
      }
      return intents;
    };
    operation.done = [this, name](const Result<ActionOutcome>& outcome) {
      answers_.push_back(name +
                         (outcome ? "" : " " + std::string(ErrorCodeName(outcome.error().code))));
      if (outcome) last_ = *outcome;
    };
    return operation;
  }
  void Submit(const std::string& name) { queue_.Submit(Named(name)); }
  Operation Expiring(const std::string& name, WallTime until) {
    Operation operation = Named(name);
    operation.change = [this, name, until]() -> Result<Intents> {
      Intents intents = state_.intents;
      intents.failed_links[name] = {.reason = "", .actor = "", .since = wall_, .until = until};
      return intents;
    };
    return operation;
  }
  void Settle() { world_.RunFor(1ms); }
  AgentId Connected(const std::string& name) {
    const AgentId agent = state_.agents.Intern(name);
    state_.agents.Connect(agent, PeerId(static_cast<std::uint64_t>(agent.value()) + 1));
    return agent;
  }
  void Acknowledge(AgentId agent) {
    state_.agents.At(agent).acked_generation = state_.agents.At(agent).generation;
    queue_.HandleAck();
    Settle();
  }
  std::string LastEvent() const {
    const auto events = state_.history.Since(state_.history.last_sequence() - 1, 1);
    return events.empty() ? "" : events[0].kind + " " + events[0].text;
  }

  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  WallTime wall_{std::chrono::hours(1'000)};
  ControllerOptions options_{.wall_clock = [this] { return wall_; }};
  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 1, .leaves = 2, .hosts_per_leaf = 1}))};
  Metrics metrics_;
  MemoryDisk disk_;
  HeldStore store_{disk_, *loop_};
  FakeTarget target_{state_};
  int outcomes_ = 0;
  Words answers_;
  ActionOutcome last_;
  OperationQueue queue_{state_,  target_, options_, *loop_, store_, [this] { ++outcomes_; },
                        metrics_};
};

TEST_F(Queue, AppliesNothingBeforeItIsDurable) {
  store_.holds = true;
  Submit("a");
  Settle();
  EXPECT_TRUE(target_.calls.empty());
  EXPECT_EQ(state_.revision, 0U);
  store_.Release();
  Settle();
  EXPECT_EQ(target_.calls, (Words{"apply", "turn", "outcome"}));
  EXPECT_EQ(answers_, (Words{"a"}));
  EXPECT_EQ(state_.revision, 1U);
  EXPECT_EQ(last_.revision, 1U);
  EXPECT_EQ(outcomes_, 1);
  EXPECT_EQ(LastEvent(), "link_failed link=a version=1 moved=0");
}

TEST_F(Queue, RunsOperationsInOrderOnTheResultOfTheEarlierOne) {
  store_.holds = true;
  for (const char* const name : {"a", "b", "a", "c"}) Submit(name);
  while (store_.waiting() > 0) {
    EXPECT_EQ(store_.waiting(), 1U);
    store_.Release();
    Settle();
  }
  EXPECT_EQ(answers_, (Words{"a", "b", "a already exists", "c"}));
  EXPECT_EQ(disk_.intents().failed_links.size(), 3U);
  EXPECT_EQ(disk_.revision, 3U);
}

TEST_F(Queue, AuditsARefusalAndAppliesNothing) {
  Submit("a");
  Submit("a");
  Settle();
  ASSERT_EQ(disk_.audit.size(), 2U);
  EXPECT_EQ(disk_.audit[0].result, AuditResult::kDone);
  EXPECT_EQ(disk_.audit[0].revision, 1U);
  EXPECT_EQ(disk_.audit[1].result, AuditResult::kRefused);
  EXPECT_EQ(disk_.audit[1].detail, "it is so");
  EXPECT_EQ(disk_.audit[1].actor, "ada");
  EXPECT_EQ(disk_.audit[1].time, wall_);
  EXPECT_EQ(disk_.revision, 1U);
  EXPECT_EQ(target_.calls, (Words{"apply", "turn", "outcome"}));
}

TEST_F(Queue, ARefusalStandsIfItCannotBeAudited) {
  Submit("a");
  Settle();
  disk_.is_full = true;
  Submit("a");
  Settle();
  EXPECT_EQ(answers_.back(), "a already exists");
}

TEST_F(Queue, AFailedCommitChangesNothingAndTheNextOperationRuns) {
  store_.holds = true;
  Submit("a");
  Submit("b");
  disk_.is_full = true;
  store_.Release();
  Settle();
  disk_.is_full = false;
  store_.Release();
  Settle();
  EXPECT_EQ(answers_, (Words{"a resource exhausted", "b"}));
  EXPECT_EQ(target_.calls, (Words{"apply", "turn", "outcome"}));
  EXPECT_FALSE(state_.intents.failed_links.contains("a"));
  // The audit log, which is on the same disk, cannot tell of it.
  const auto events = state_.history.Since(0, 10);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].kind, "action_not_stored");
  EXPECT_NE(events[0].text.find("target=a"), std::string::npos) << events[0].text;
}

TEST_F(Queue, ADryRunIsAnsweredAtOnceWhileOthersWait) {
  store_.holds = true;
  Submit("a");
  Operation dry = Named("b");
  dry.request.dry_run = true;
  queue_.Submit(std::move(dry));
  EXPECT_EQ(answers_, (Words{"b"}));
  EXPECT_EQ(target_.calls, (Words{"try 1"}));
  EXPECT_EQ(store_.waiting(), 1U);  // of a
  EXPECT_TRUE(state_.intents.failed_links.empty());
  EXPECT_EQ(last_.version, state_.topology.version());
}

TEST_F(Queue, ADryRunThatIsRefusedIsNotAudited) {
  Submit("a");
  Settle();
  Operation dry = Named("a");
  dry.request.dry_run = true;
  queue_.Submit(std::move(dry));
  EXPECT_EQ(answers_.back(), "a already exists");
  EXPECT_EQ(disk_.audit.size(), 1U);
}

TEST_F(Queue, WithoutAChangeAllFlowsAreReassignedAndNoIntentIsWritten) {
  Operation recompute = Named("recompute");
  recompute.change = nullptr;
  recompute.event = "recomputed";
  Operation dry = recompute;
  dry.request.dry_run = true;
  queue_.Submit(std::move(dry));
  EXPECT_EQ(target_.calls, (Words{"try to reassign"}));
  queue_.Submit(std::move(recompute));
  Settle();
  EXPECT_EQ(target_.calls, (Words{"try to reassign", "reassign", "turn", "outcome"}));
  EXPECT_EQ(disk_.revision, 0U);
  ASSERT_EQ(disk_.audit.size(), 1U);
  EXPECT_EQ(disk_.audit[0].moves, (std::vector<AuditMove>{{"h0:1", "job", "spine0", "spine1"}}));
  EXPECT_EQ(LastEvent(), "recomputed moved=1 max_load=0 bound=0");
}

TEST_F(Queue, WaitsForTheAgentsWhoseFlowsItMoved) {
  const AgentId one = Connected("h0");
  const AgentId two = Connected("h1");
  target_.moves_of = {one, two};
  Submit("a");
  Settle();
  EXPECT_TRUE(queue_.AwaitsAgents());
  EXPECT_EQ(target_.calls, (Words{"apply", "turn"}));
  Acknowledge(two);
  EXPECT_TRUE(answers_.empty());
  Acknowledge(one);
  EXPECT_EQ(answers_, (Words{"a"}));
  EXPECT_FALSE(queue_.AwaitsAgents());
  EXPECT_EQ(target_.calls, (Words{"apply", "turn", "outcome"}));
}

TEST_F(Queue, DoesNotWaitForAnAgentThatIsGone) {
  const AgentId agent = Connected("h0");
  target_.moves_of = {agent};
  state_.agents.Disconnect(agent);
  Submit("a");
  Settle();
  EXPECT_EQ(answers_, (Words{"a"}));
}

TEST_F(Queue, StopsWaitingForAgentsAfterATimeout) {
  target_.moves_of = {Connected("h0")};
  Submit("a");
  Submit("b");
  world_.RunFor(kPatience - 1ms);
  EXPECT_TRUE(answers_.empty());
  world_.RunFor(2ms);
  EXPECT_EQ(answers_, (Words{"a"}));
  world_.RunFor(kPatience + 1ms);
  EXPECT_EQ(answers_, (Words{"a", "b"}));
}

TEST_F(Queue, IgnoresAcknowledgementsOfOtherAgents) {
  const AgentId other = Connected("h1");
  target_.moves_of = {Connected("h0")};
  queue_.HandleAck();  // nothing waits
  Submit("a");
  Settle();
  Acknowledge(other);
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(outcomes_, 0);
}

TEST_F(Queue, AcceptsSixtyFourAndRefusesOneMoreInsideTheCall) {
  store_.holds = true;
  for (int i = 0; i < 64; ++i) Submit(std::to_string(i));
  EXPECT_TRUE(answers_.empty());
  Submit("one more");
  EXPECT_EQ(answers_, (Words{"one more resource exhausted"}));
  store_.holds = false;
  store_.Release();
  world_.RunFor(1s);
  EXPECT_EQ(answers_.size(), 65U);
  EXPECT_EQ(answers_.back(), "63");
  EXPECT_EQ(disk_.audit.size(), 64U);  // the one refused was not written down
}

TEST_F(Queue, SucceedsIfItsMovesCannotBeAudited) {
  store_.holds = true;
  target_.moves_of = {Connected("h0")};
  Submit("a");
  store_.Release();
  Settle();
  disk_.is_full = true;
  world_.RunFor(kPatience + 1ms);
  EXPECT_EQ(answers_, (Words{"a"}));
  EXPECT_EQ(LastEvent(), "audit_unfinished the disk is full");
  EXPECT_EQ(disk_.audit[0].result, AuditResult::kUnfinished);
}

TEST_F(Queue, EndsExpiredIntentsInItsOwnName) {
  queue_.Submit(Expiring("a", wall_ + 10s));
  Settle();
  queue_.ApplySchedule();
  Settle();
  EXPECT_EQ(disk_.audit.size(), 1U);
  world_.RunFor(10s);
  wall_ += 10s;
  queue_.ApplySchedule();
  Settle();
  ASSERT_EQ(disk_.audit.size(), 2U);
  EXPECT_EQ(disk_.audit[1].action, "expire");
  EXPECT_EQ(disk_.audit[1].actor, "espalier");
  EXPECT_EQ(disk_.intents(), Intents{});
  EXPECT_EQ(state_.intents, Intents{});
  EXPECT_EQ(LastEvent(), "intents_expired version=1 moved=0");
}

TEST_F(Queue, EndsNoIntentWhileAnActionWaits) {
  queue_.Submit(Expiring("a", wall_ + 1ms));
  Settle();
  queue_.ApplySchedule();  // it is measured
  EXPECT_EQ(disk_.audit.size(), 1U);
  world_.RunFor(1s);
  store_.holds = true;
  Submit("b");
  queue_.ApplySchedule();
  store_.holds = false;
  store_.Release();
  Settle();
  EXPECT_EQ(disk_.audit.size(), 2U);  // of a and b
  queue_.ApplySchedule();
  Settle();
  EXPECT_EQ(disk_.audit.back().action, "expire");
}

TEST_F(Queue, RetriesAnExpiryThatCouldNotBeStored) {
  queue_.Submit(Expiring("a", wall_ + 1ms));
  Settle();
  queue_.ApplySchedule();
  world_.RunFor(2s);
  disk_.is_full = true;
  queue_.ApplySchedule();
  Settle();
  EXPECT_EQ(LastEvent(), "expiry_not_stored the disk is full");
  EXPECT_TRUE(state_.intents.failed_links.contains("a"));
  disk_.is_full = false;
  world_.RunFor(1s);
  queue_.ApplySchedule();
  Settle();
  EXPECT_TRUE(state_.intents.failed_links.empty());
}

}  // namespace
}  // namespace espalier::controller
