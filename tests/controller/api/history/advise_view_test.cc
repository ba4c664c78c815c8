#include "controller/api/history/advise_view.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/controller/api/operator_api_fixture.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

class AdviseTest : public OperatorApiFixture {
 protected:
  io::JsonValue Advise(const std::string& span = "") {
    return Json(Call("GET", "/api/v1/advise", {{"for", span}}));
  }
  // Both flows of job A send everything that they have announced.
  void EndBurst() {
    cluster_.Advance(1s);
    for (const int host : {0, 1}) {
      wire::FlowReport report;
      report.progress = {{.id = wire::LocalFlowId(host == 0 ? 5 : 6)}};
      cluster_.Report(host, report);
    }
    cluster_.Advance(1s);
  }
};

TEST_F(AdviseTest, SaysThatNothingWasObservedYet) {
  const io::JsonValue answer = Advise();
  EXPECT_EQ(answer.Find("mode")->text, "STEER");
  EXPECT_EQ(answer.Find("since")->text, "");
  EXPECT_EQ(answer.Find("bursts")->text, "0");
  EXPECT_TRUE(answer.Find("jobs")->items.empty());
}

TEST_F(AdviseTest, ComparesTheSchemesOfEachJob) {
  EndBurst();
  const io::JsonValue answer = Advise("10m");
  EXPECT_EQ(answer.Find("bursts")->text, "1");
  ASSERT_EQ(answer.Find("jobs")->items.size(), 1U);
  const io::JsonValue& job = answer.Find("jobs")->items[0];
  EXPECT_EQ(job.Find("job")->text, "A");
  EXPECT_EQ(job.Find("placing")->text, "STEERED");
  EXPECT_EQ(job.Find("crossing_flows")->text, "2.0");
  ASSERT_EQ(job.Find("schemes")->items.size(), 7U);
  for (const io::JsonValue& scheme : job.Find("schemes")->items) {
    const bool is_known = scheme.Find("burst_seconds")->kind == io::JsonValue::Kind::kNumber;
    EXPECT_EQ(is_known, scheme.Find("scheme")->text != "ROUND_TRIP_WEIGHTS");
    EXPECT_EQ(is_known, scheme.Find("reason")->text.empty());
  }
  EXPECT_EQ(job.Find("gpus")->kind, io::JsonValue::Kind::kNull) << "they are not in the topology";
  ASSERT_EQ(job.Find("hours")->items.size(), 1U);
  const io::JsonValue& hour = job.Find("hours")->items[0];
  ASSERT_EQ(hour.Find("schemes")->items.size(), 7U) << "as the sum of all hours has them";
  for (std::size_t i = 0; i < 7; ++i) {
    for (const char* field : {"scheme", "burst_seconds", "low", "high", "reason"}) {
      EXPECT_EQ(hour.Find("schemes")->items[i].Find(field)->text,
                job.Find("schemes")->items[i].Find(field)->text)
          << field;
    }
  }
}

TEST_F(AdviseTest, RefusesWhatIsNoTimeSpan) {
  for (const char* span : {"soon", "0m", "-5m", "2026-11-21T18:00Z", "5", "99999999999999d", "m"}) {
    const io::HttpResponse answer = Call("GET", "/api/v1/advise", {{"for", span}});
    EXPECT_EQ(answer.status, 400) << span;
    EXPECT_NE(answer.body.find("give one such as 30m"), std::string::npos) << answer.body;
  }
}

}  // namespace
}  // namespace espalier::controller
