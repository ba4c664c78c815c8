// Bursts whose ports were right before their first byte.
#include <gtest/gtest.h>

#include "tests/controller/placement/arrivals/bursts_fixture.h"

namespace espalier::controller {
namespace {

class ReadyBurstsTest : public BurstsTest {
 protected:
  // From host to host + 4, of a job of its own; idle.
  void OpenOne(int host) {
    wire::FlowReport report = Cluster::Opening(
        cluster_, host, {{.id = 1, .to = host + 4, .job = "serve" + std::to_string(host)}});
    report.progress = {Row(edges_[host] = 2)};
    cluster_.Report(host, report);
    cluster_.Settle();
  }
  void Change(int host) {
    Toggle(host);
    cluster_.Settle();
  }
  // Answers requests without any rhythm.
  void Serve(int host, int requests) {
    for (int i = 0; i < requests; ++i) {
      Change(host);
      cluster_.Advance(20ms);
      Change(host);
      cluster_.Advance(NextPause());
    }
  }
  // From 0.3 to 3.7 s, each longer than the one before by more than what counts as the same.
  Duration NextPause() {
    pause_ = pause_ > 3s ? Duration(300ms) : pause_ * 137 / 100;
    return pause_;
  }

  Duration pause_{300ms};
};

TEST_F(ReadyBurstsTest, BurstsOnPortsThatAreInForceAreReady) {
  OpenOne(0);
  Serve(0, 5);
  auto jobs = cluster_.controller().predictor().Jobs();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].bursts, 5U);
  EXPECT_EQ(jobs[0].bursts_ready, 5U);
  // Its host does not acknowledge the next port.
  cluster_.host(0).acknowledges = false;
  const int spine = cluster_.AppliedSpine(0, 1, 4);
  ASSERT_TRUE(
      cluster_.ChangeLink("leaf0--spine" + std::to_string(spine), IntentAction::kFail).has_value());
  Serve(0, 1);
  jobs = cluster_.controller().predictor().Jobs();
  EXPECT_EQ(jobs[0].bursts, 6U);
  EXPECT_EQ(jobs[0].bursts_ready, 5U);
  EXPECT_EQ(cluster_.CounterValue("espalier_bursts_unready_total"), 1);
}

}  // namespace
}  // namespace espalier::controller
