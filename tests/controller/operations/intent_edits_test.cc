// Tests how each action changes the intents, and its errors.
#include "controller/operations/intent_edits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/fabric/builders.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;
using fabric::LinkState;

constexpr WallTime kNow{std::chrono::hours(1'000)};
constexpr const char* kLink = "leaf0--spine0";
constexpr const char* kFailedInFile = "leaf0--spine1";
constexpr const char* kDrainedInFile = "leaf1--spine0";

class IntentEdits : public testing::Test {
 protected:
  IntentEdits() {
    in_file_.assign(topology_.links().size(), LinkState::kUp);
    in_file_[topology_.FindLink(kFailedInFile)->Index()] = LinkState::kDown;
    in_file_[topology_.FindLink(kDrainedInFile)->Index()] = LinkState::kDrained;
  }

  Result<Intents> Link(const std::string& link, IntentAction action) const {
    return ChangeLinkIntent(intents_, topology_, in_file_, link, action, request_, kNow);
  }
  Result<Intents> Node(const std::string& node, IntentAction action) const {
    return ChangeNodeIntent(intents_, topology_, node, action, request_, kNow);
  }
  Result<Intents> Weight(const std::string& job, std::uint64_t weight) const {
    return ChangeWeightIntent(intents_, job, weight, request_, kNow);
  }
  Result<Intents> Policy(const std::string& name, const std::optional<std::string>& value) const {
    return ChangePolicyIntent(intents_, name, value, request_, kNow);
  }
  // Makes these the intents.
  void Keep(const Result<Intents>& intents) {
    ASSERT_TRUE(intents) << intents.error().message;
    intents_ = *intents;
  }
  static void ExpectRefused(const Result<Intents>& refused, ErrorCode code,
                            const std::string& message) {
    ASSERT_FALSE(refused) << "not refused: " << message;
    EXPECT_EQ(refused.error().code, code) << refused.error().message;
    EXPECT_EQ(refused.error().message, message);
  }
  Intent Written(const IntentValue& value = {}) const {
    return {request_.reason, request_.actor, kNow, request_.until, value};
  }

  fabric::Topology topology_ = *fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 1}));
  std::vector<LinkState> in_file_;
  Intents intents_;
  OperatorRequest request_{.actor = "ada", .reason = "dust"};
};

TEST_F(IntentEdits, FailAndDrainLinksAndUndoIt) {
  for (const auto& [does, undoes, links] :
       {std::tuple(IntentAction::kFail, IntentAction::kRestore, &Intents::failed_links),
        std::tuple(IntentAction::kDrain, IntentAction::kUndrain, &Intents::drained_links)}) {
    Keep(Link(kLink, does));
    EXPECT_EQ(intents_.*links, (IntentById{{kLink, Written()}}));
    Keep(Link(kLink, undoes));
    EXPECT_EQ(intents_, Intents{});
  }
}

TEST_F(IntentEdits, FailAndDrainNodesAndUndoIt) {
  for (const auto& [does, undoes, nodes] :
       {std::tuple(IntentAction::kFail, IntentAction::kRestore, &Intents::failed_nodes),
        std::tuple(IntentAction::kDrain, IntentAction::kUndrain, &Intents::drained_nodes)}) {
    Keep(Node("spine1", does));
    EXPECT_EQ(intents_.*nodes, (IntentById{{"spine1", Written()}}));
    Keep(Node("spine1", undoes));
    EXPECT_EQ(intents_, Intents{});
  }
}

TEST_F(IntentEdits, RestoresByAnIntentWhatTheFileHasAsFailedOrDrained) {
  Keep(Link(kFailedInFile, IntentAction::kRestore));
  Keep(Link(kDrainedInFile, IntentAction::kUndrain));
  EXPECT_EQ(intents_.restored_links.size(), 2U);
  EXPECT_TRUE(intents_.failed_links.empty());
  EXPECT_TRUE(intents_.drained_links.empty());
  Keep(Link(kFailedInFile, IntentAction::kFail));  // as the file says: no intent
  Keep(Link(kDrainedInFile, IntentAction::kDrain));
  EXPECT_EQ(intents_, Intents{});
}

TEST_F(IntentEdits, DrainsByAnIntentWhatTheFileHasAsFailed) {
  Keep(Link(kFailedInFile, IntentAction::kDrain));
  EXPECT_TRUE(intents_.drained_links.contains(kFailedInFile));
  Keep(Link(kDrainedInFile, IntentAction::kFail));
  EXPECT_TRUE(intents_.failed_links.contains(kDrainedInFile));
}

TEST_F(IntentEdits, ReportsActionsThatWouldChangeNothing) {
  const auto refuse = [&](const char* link, IntentAction action, const std::string& message) {
    ExpectRefused(Link(link, action), ErrorCode::kAlreadyExists, message);
  };
  refuse(kLink, IntentAction::kRestore, "link leaf0--spine0 is not failed");
  refuse(kLink, IntentAction::kUndrain, "link leaf0--spine0 is not drained");
  refuse(kFailedInFile, IntentAction::kFail, "link leaf0--spine1 is already failed");
  refuse(kDrainedInFile, IntentAction::kDrain, "link leaf1--spine0 is already drained");
  Keep(Link(kLink, IntentAction::kFail));
  refuse(kLink, IntentAction::kFail, "link leaf0--spine0 is already failed");
  Keep(Link(kFailedInFile, IntentAction::kRestore));
  refuse(kFailedInFile, IntentAction::kRestore, "link leaf0--spine1 is not failed");
  ExpectRefused(Node("spine0", IntentAction::kUndrain), ErrorCode::kAlreadyExists,
                "node spine0 is not drained");
  Keep(Node("spine0", IntentAction::kDrain));
  ExpectRefused(Node("spine0", IntentAction::kDrain), ErrorCode::kAlreadyExists,
                "node spine0 is already drained");
}

TEST_F(IntentEdits, ALinkCanBeFailedAndDrainedAtOnce) {
  Keep(Link(kLink, IntentAction::kFail));
  Keep(Link(kLink, IntentAction::kDrain));
  Keep(Link(kLink, IntentAction::kRestore));
  EXPECT_TRUE(intents_.failed_links.empty());
  EXPECT_EQ(intents_.drained_links.size(), 1U);
}

TEST_F(IntentEdits, NamesUnknownLinksAndNodes) {
  for (const IntentAction action : {IntentAction::kFail, IntentAction::kRestore,
                                    IntentAction::kDrain, IntentAction::kUndrain}) {
    ExpectRefused(Link("leaf9--spine0", action), ErrorCode::kNotFound,
                  "there is no link \"leaf9--spine0\" (`espalier links` lists them)");
    ExpectRefused(Node("leaf9", action), ErrorCode::kNotFound,
                  "there is no node \"leaf9\" (`espalier nodes` lists them)");
  }
}

TEST_F(IntentEdits, AnEndMustBeInTheFuture) {
  request_.until = kNow + 1us;
  Keep(Link(kLink, IntentAction::kFail));
  EXPECT_EQ(intents_.failed_links.at(kLink).until, kNow + 1us);
  request_.until = kNow;  // now is past
  const std::string past =
      "the end time 1970-02-11T16:00:00.000Z is in the past (the controller's clock says "
      "1970-02-11T16:00:00.000Z)";
  ExpectRefused(Link("leaf1--spine1", IntentAction::kDrain), ErrorCode::kInvalidArgument, past);
  ExpectRefused(Node("spine0", IntentAction::kFail), ErrorCode::kInvalidArgument, past);
  ExpectRefused(Weight("job", 2), ErrorCode::kInvalidArgument, past);
  ExpectRefused(Policy("plan_ahead", "false"), ErrorCode::kInvalidArgument, past);
}

TEST_F(IntentEdits, RemovalsTakeNoEnd) {
  request_.until = kNow + 1h;
  const auto text = [](const std::string& verb) {
    return verb + " does not take an end time (only fail, drain and set do)";
  };
  ExpectRefused(Link(kLink, IntentAction::kRestore), ErrorCode::kInvalidArgument, text("restore"));
  ExpectRefused(Node("spine0", IntentAction::kUndrain), ErrorCode::kInvalidArgument,
                text("undrain"));
  ExpectRefused(Weight("job", 1), ErrorCode::kInvalidArgument, text("a reset"));
  ExpectRefused(Policy("plan_ahead", std::nullopt), ErrorCode::kInvalidArgument, text("a reset"));
}

TEST_F(IntentEdits, WeightsAreFrom1To1000AndOneRemovesTheIntent) {
  ExpectRefused(Weight("job", 0), ErrorCode::kInvalidArgument,
                "weight 0 is out of range (choose 1 to 1000)");
  ExpectRefused(Weight("job", 1'001), ErrorCode::kInvalidArgument,
                "weight 1001 is out of range (choose 1 to 1000)");
  ExpectRefused(Weight("", 2), ErrorCode::kInvalidArgument,
                "the job's name is empty (name the job whose weight is to change)");
  ExpectRefused(Weight("job", 1), ErrorCode::kAlreadyExists, "no weight or policy is set for job");
  Keep(Weight("job", 1'000));
  EXPECT_EQ(intents_.weights, (IntentById{{"job", Written(JobWeight{1'000})}}));
  ExpectRefused(Weight("job", 1'000), ErrorCode::kAlreadyExists, "job is already set to 1000");
  Keep(Weight("job", 2));
  EXPECT_EQ(intents_.weights.at("job").value, IntentValue(JobWeight{2}));
  Keep(Weight("job", 1));
  EXPECT_EQ(intents_, Intents{});
}

TEST_F(IntentEdits, TheSameValueWithAnotherEndIsAChange) {
  Keep(Weight("job", 2));
  request_.until = kNow + 1h;
  Keep(Weight("job", 2));
  EXPECT_EQ(intents_.weights.at("job").until, kNow + 1h);
  ExpectRefused(Weight("job", 2), ErrorCode::kAlreadyExists, "job is already set to 2");
}

TEST_F(IntentEdits, AskingAgainChangesWhatIsGivenAndNothingElse) {
  request_.reason = "optics";
  request_.until = kNow + 1h;
  Keep(Weight("job", 2));
  const Intent first = intents_.weights.at("job");
  // Another value keeps the end and the reason.
  request_.reason.clear();
  request_.until.reset();
  Keep(Weight("job", 3));
  EXPECT_EQ(intents_.weights.at("job").until, first.until);
  EXPECT_EQ(intents_.weights.at("job").reason, "optics");
  request_.reason = "firmware";
  Keep(Weight("job", 3));
  EXPECT_EQ(intents_.weights.at("job").until, first.until);
  EXPECT_EQ(intents_.weights.at("job").reason, "firmware");
  request_.reason.clear();
  request_.never_ends = true;
  Keep(Weight("job", 3));
  EXPECT_EQ(intents_.weights.at("job").until, std::nullopt);
  ExpectRefused(Weight("job", 3), ErrorCode::kAlreadyExists, "job is already set to 3");
}

TEST_F(IntentEdits, PoliciesAreThoseOfTheConfiguration) {
  const std::string names =
      " (choose one of: algorithm, moves_per_start, moved_bytes_per_start, limit_rates, "
      "plan_ahead, shares)";
  ExpectRefused(Policy("listen", "x"), ErrorCode::kNotFound,
                "there is no policy \"listen\"" + names);
  ExpectRefused(Policy("listen", std::nullopt), ErrorCode::kNotFound,
                "there is no policy \"listen\"" + names);
  ExpectRefused(Policy("algorithm", "best"), ErrorCode::kInvalidArgument,
                "algorithm: invalid value \"best\" (give optimal or greedy)");
  ExpectRefused(Policy("algorithm", std::nullopt), ErrorCode::kAlreadyExists,
                "no weight or policy is set for algorithm");
  Keep(Policy("algorithm", "greedy"));
  EXPECT_EQ(intents_.policies, (IntentById{{"algorithm", Written(Algorithm::kGreedy)}}));
  ExpectRefused(Policy("algorithm", "greedy"), ErrorCode::kAlreadyExists,
                "algorithm is already set to greedy");
  Keep(Policy("algorithm", std::nullopt));
  EXPECT_EQ(intents_, Intents{});
}

TEST_F(IntentEdits, JobsAreKeptWithTheirSpecUntilTheyAreStopped) {
  request_.until = kNow + 1h;  // which a job does not have: OperatorActions refuses it
  const StartedJob job{{.name = "train", .ranks = {"h0", "h1"}, .bytes = 7}, {4'791, 4'791}};
  Keep(AddJobIntent(intents_, job, request_, kNow));
  EXPECT_EQ(intents_.jobs, (IntentById{{"train", {"dust", "ada", kNow, std::nullopt, job}}}));
  ExpectRefused(RemoveJobIntent(intents_, "other"), ErrorCode::kNotFound,
                "there is no job \"other\" (`espalier job list` lists them)");
  Keep(RemoveJobIntent(intents_, "train"));
  EXPECT_EQ(intents_, Intents{});
}

TEST_F(IntentEdits, EndedIntentsOfEveryKindAreDroppedAndJobsStay) {
  request_.until = kNow + 1h;
  for (IntentById* const members :
       {&intents_.failed_links, &intents_.failed_nodes, &intents_.drained_links,
        &intents_.drained_nodes, &intents_.restored_links, &intents_.weights, &intents_.policies,
        &intents_.jobs}) {
    (*members)["ends"] = Written();
    (*members)["stays"] = {.reason = "", .actor = "", .since = kNow, .until = std::nullopt};
  }
  const auto has_end = [](const Intent& intent) { return intent.until.has_value(); };
  EXPECT_TRUE(DropEnded(intents_, has_end));
  for (const IntentById* const members :
       {&intents_.failed_links, &intents_.failed_nodes, &intents_.drained_links,
        &intents_.drained_nodes, &intents_.restored_links, &intents_.weights, &intents_.policies}) {
    EXPECT_EQ(members->size(), 1U);
    EXPECT_TRUE(members->contains("stays"));
  }
  EXPECT_EQ(intents_.jobs.size(), 2U);
  EXPECT_FALSE(DropEnded(intents_, has_end));
}

TEST(WordsForActions, HaveAPresentAndAPastForm) {
  EXPECT_EQ(WordsFor(IntentAction::kFail).past, "failed");
  EXPECT_EQ(WordsFor(IntentAction::kRestore).verb, "restore");
  EXPECT_TRUE(WordsFor(IntentAction::kDrain).adds);
  EXPECT_FALSE(WordsFor(IntentAction::kUndrain).adds);
}

}  // namespace
}  // namespace espalier::controller
