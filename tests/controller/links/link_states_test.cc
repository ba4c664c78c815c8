// Tests which source decides the state of a link: the file, operators, or hosts and feeds.
#include "controller/links/link_states.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/controller/links/link_fixture.h"

namespace espalier::controller {
namespace {

using fabric::LinkState;

constexpr const char* kLink = "leaf0--spine0";
constexpr const char* kFailedInFile = "leaf0--spine1";
constexpr const char* kDrainedInFile = "leaf0--spine2";

class States : public LinkFixture {
 protected:
  States() {
    state_.topology.SetLinkState(Link(kFailedInFile), LinkState::kDown);
    state_.topology.SetLinkState(Link(kDrainedInFile), LinkState::kDrained);
    state_.view.Refresh();
    states_ = std::make_unique<LinkStates>(state_, *health_);
  }
  LinkState StateOf(const std::string& link) const {
    return states_->StateUnder(intents_, Link(link));
  }
  LinkState Present(const std::string& link) const {
    return state_.topology.link(Link(link)).state;
  }

  Intents intents_;
  std::unique_ptr<LinkStates> states_;
};

TEST_F(States, AreThoseOfTheFileWithoutIntents) {
  EXPECT_EQ(StateOf(kLink), LinkState::kUp);
  EXPECT_EQ(StateOf(kFailedInFile), LinkState::kDown);
  EXPECT_EQ(StateOf(kDrainedInFile), LinkState::kDrained);
  EXPECT_EQ(states_->in_file()[Link(kDrainedInFile).Index()], LinkState::kDrained);
}

TEST_F(States, RestoredLinksAreUpWhateverTheFileSays) {
  intents_.restored_links = {{kFailedInFile, {}}, {kDrainedInFile, {}}};
  EXPECT_EQ(StateOf(kFailedInFile), LinkState::kUp);
  EXPECT_EQ(StateOf(kDrainedInFile), LinkState::kUp);
  intents_.drained_links = {{kFailedInFile, {}}};
  EXPECT_EQ(StateOf(kFailedInFile), LinkState::kDrained);
  intents_.failed_nodes = {{"spine2", {}}};
  EXPECT_EQ(StateOf(kDrainedInFile), LinkState::kDown);
}

TEST_F(States, TellWhichLinksWereLostOrReturned) {
  const auto after = [&](const Intents& intents) {
    state_.intents = intents;
    states_->Apply();
    const auto links = states_->lost_or_returned();
    return std::vector<fabric::LinkId>(links.begin(), links.end());
  };
  const std::vector<fabric::LinkId> none;
  const std::vector<fabric::LinkId> one{Link(kLink)};
  const Intents drained{.drained_links = {{kLink, {}}}};
  const Intents failed{.failed_links = {{kLink, {}}}};
  EXPECT_EQ(after(drained), none);
  EXPECT_EQ(after({}), none);
  EXPECT_EQ(after(failed), one);
  EXPECT_EQ(after(failed), none) << "nothing changed";
  EXPECT_EQ(after(drained), one) << "it is used by switches again";
}

TEST_F(States, AFailureWinsOverADrain) {
  intents_.drained_links = {{kLink, {}}};
  EXPECT_EQ(StateOf(kLink), LinkState::kDrained);
  intents_.failed_links = {{kLink, {}}};
  EXPECT_EQ(StateOf(kLink), LinkState::kDown);
  intents_ = {};
  intents_.drained_links = {{kFailedInFile, {}}};
  EXPECT_EQ(StateOf(kFailedInFile), LinkState::kDown);  // the file's, too
}

TEST_F(States, NodesTakeAllTheirLinksWithThem) {
  intents_.failed_nodes = {{"leaf0", {}}};
  intents_.drained_nodes = {{"spine3", {}}};
  EXPECT_EQ(StateOf(kLink), LinkState::kDown);
  EXPECT_EQ(StateOf("leaf0--spine3"), LinkState::kDown);
  EXPECT_EQ(StateOf("leaf1--spine3"), LinkState::kDrained);
  EXPECT_EQ(StateOf("h0--leaf0"), LinkState::kDown);
  EXPECT_EQ(StateOf("leaf1--spine0"), LinkState::kUp);
}

TEST_F(States, ADetectedFailureWinsOverADrainOrRestore) {
  FeedSays(kLink, false);
  FeedSays(kFailedInFile, false);
  intents_.drained_links = {{kLink, {}}};
  intents_.restored_links = {{kFailedInFile, {}}};
  EXPECT_EQ(StateOf(kLink), LinkState::kDown);
  EXPECT_EQ(StateOf(kFailedInFile), LinkState::kDown);
}

TEST_F(States, TheTopologyUnderIntentsIsACopy) {
  const std::int64_t version = state_.topology.version();
  EXPECT_EQ(states_->TopologyUnder(intents_), std::nullopt);  // as it is
  intents_.failed_links = {{kLink, {}}};
  const auto trial = states_->TopologyUnder(intents_);
  ASSERT_TRUE(trial);
  EXPECT_EQ(trial->link(Link(kLink)).state, LinkState::kDown);
  EXPECT_EQ(trial->version(), version + 1);
  EXPECT_EQ(Present(kLink), LinkState::kUp);
  EXPECT_EQ(state_.topology.version(), version);
}

TEST_F(States, ApplySetsTheStatesAndReturnsTheChangedLinks) {
  EXPECT_TRUE(states_->Apply().empty());
  state_.intents.failed_links = {{kLink, {}}};
  state_.intents.restored_links = {{kFailedInFile, {}}};
  EXPECT_EQ(states_->Apply(), (std::vector{Link(kLink), Link(kFailedInFile)}));
  EXPECT_EQ(Present(kLink), LinkState::kDown);
  EXPECT_EQ(Present(kFailedInFile), LinkState::kUp);
  state_.intents = {};
  EXPECT_EQ(states_->Apply().size(), 2U);
  EXPECT_EQ(Present(kLink), LinkState::kUp);
  EXPECT_EQ(Present(kFailedInFile), LinkState::kDown);  // as in the file
}

TEST_F(States, ApplyReturnsTheSubflowsThatLostTheirPath) {
  const auto reserve = [&](std::int32_t path) {
    return state_.flow_paths.Reserve(Node("leaf0"), Node("leaf1"), path, 1);
  };
  reserve(3);
  const SubflowId lost = reserve(0);
  state_.intents.failed_links = {{kLink, {}}};
  states_->Apply();
  EXPECT_EQ(std::vector(states_->affected().begin(), states_->affected().end()), std::vector{lost});
  state_.flow_paths.CheckInvariants();  // nothing has moved
  state_.flow_paths.Unreserve(lost);
  state_.intents = {};
  states_->Apply();
  EXPECT_TRUE(states_->affected().empty());
}

}  // namespace
}  // namespace espalier::controller
