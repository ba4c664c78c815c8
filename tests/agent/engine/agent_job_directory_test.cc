// Which jobs the offload service announces to the agent, and for how long.
#include "agent/engine/agent_job_directory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/collective/client/local_agent.h"
#include "tests/temporary_folder.h"

namespace espalier::engine {
namespace {

using namespace std::chrono_literals;

class AgentJobDirectoryTest : public testing::Test {
 protected:
  // A new agent, which has plans of that many jobs.
  void StartAgent(int jobs) {
    agent_ = std::make_unique<LocalAgent>(socket_);
    std::vector<wire::RankPlan> plans;
    for (int job = 0; job < jobs; ++job) {
      wire::RankPlan plan = MakePlans(0, RingBytes(kRanks)).front();
      plan.job = "job" + std::to_string(job);
      plan.offload = true;
      plans.push_back(std::move(plan));
    }
    agent_->Give(std::move(plans));
  }
  runtime::JobPlace Find(int job) {
    auto place =
        directory_.Find({"job" + std::to_string(job), 0, 0}, {::geteuid(), ::getpid()}, 60s);
    EXPECT_TRUE(place) << place.error().message;
    return place ? std::move(*place) : runtime::JobPlace{};
  }
  // Whether the agent learns of a connection of this place.
  bool IsAnnounced(const runtime::JobPlace& place) {
    if (place.join.options.observer == nullptr) return false;
    const auto watch =
        place.join.options.observer->Watch({.source = *IpAddress::Parse("10.0.0.1"),
                                            .destination = *IpAddress::Parse("10.0.0.2"),
                                            .source_port = 40'000,
                                            .destination_port = 40'001});
    return watch != nullptr;
  }

  TemporaryFolder folder_;
  const std::string socket_ = folder_.path() + "/agent.sock";
  std::unique_ptr<LocalAgent> agent_;
  AgentJobDirectory directory_{socket_};
};

// Regression: the first 64 jobs were kept for good, and later ones were not steered.
TEST_F(AgentJobDirectoryTest, ForgetsJobsThatAreOver) {
  constexpr int kJobs = 200;
  StartAgent(kJobs);
  for (int job = 0; job < kJobs; ++job) EXPECT_TRUE(IsAnnounced(Find(job))) << job;
  std::vector<runtime::JobPlace> places;
  for (int job = 0; job < 70; ++job) {
    places.push_back(Find(job));
    EXPECT_EQ(IsAnnounced(places.back()), job < 64) << "at a time " << job;
  }
  EXPECT_TRUE(IsAnnounced(Find(0))) << "further ranks of a job that is known";
  places.erase(places.begin());
  EXPECT_TRUE(IsAnnounced(Find(71)));
}

// Regression: after an agent had gone for good, its jobs were announced to nobody.
TEST_F(AgentJobDirectoryTest, AnnouncesAJobToTheNextAgent) {
  ASSERT_EQ(::setenv("ESPALIER_AGENT_GRACE_SECONDS", "0", 1), 0);
  StartAgent(1);
  const runtime::JobPlace before = Find(0);
  EXPECT_TRUE(IsAnnounced(before));
  agent_.reset();
  while (IsAnnounced(before)) directory_.Dispatch();
  StartAgent(1);
  EXPECT_TRUE(IsAnnounced(Find(0)));
  ASSERT_EQ(::unsetenv("ESPALIER_AGENT_GRACE_SECONDS"), 0);
}

TEST_F(AgentJobDirectoryTest, SaysWhichJobsDoNotUseTheEngine) {
  StartAgent(0);
  agent_->Give(MakePlans(0, RingBytes(kRanks)));
  const auto place = directory_.Find({kJob, 0, 0}, {::geteuid(), ::getpid()}, 60s);
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().code, ErrorCode::kNotFound);
  EXPECT_NE(place.error().message.find("--offload"), std::string::npos);
}

}  // namespace
}  // namespace espalier::engine
