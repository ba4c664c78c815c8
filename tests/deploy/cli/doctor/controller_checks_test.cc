#include "deploy/cli/doctor/controller_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "common/identity/key_folder.h"
#include "tests/temporary_folder.h"

namespace espalier::doctor {
namespace {

io::JsonValue Json(const std::string& text) {
  auto parsed = io::ParseJson(text, "test");
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed ? *parsed : io::JsonValue{};
}

// A healthy fabric of two pairs with four paths each.
ControllerAnswers Healthy() {
  ControllerAnswers answers;
  answers.status = Json(R"({"health": "ok", "health_reasons": [], "sprayed_hosts": [],
                            "topology": "lab", "hosts": 4, "hosts_without_agent": 0,
                            "agents_connected": 4, "flows": 2, "path_map_pairs": 2,
                            "path_map_ports": 60})");
  answers.paths = Json(R"({"pairs_known": 2, "pairs": [
      {"source": "h0", "destination": "h2", "verified": 30, "predicted": 0, "reverify": 0,
       "paths_known": 4, "paths": 4},
      {"source": "h1", "destination": "h3", "verified": 4, "predicted": 26, "reverify": 0,
       "paths_known": 4, "paths": 4}]})");
  return answers;
}

void AddEvent(ControllerAnswers& answers, const std::string& kind, const std::string& text) {
  answers.events.push_back(Json(R"({"sequence": 1, "time": "2026-11-21T09:38:58.907Z", "kind": ")" +
                                kind + R"(", "text": ")" + text + "\"}"));
}

Finding Of(const ControllerAnswers& answers, const std::string& check) {
  Findings findings;
  CheckController(answers, findings);
  EXPECT_EQ(std::ranges::count(findings.all(), check, &Finding::check), 1) << check;
  const auto found = std::ranges::find(findings.all(), check, &Finding::check);
  if (found == findings.all().end()) return {};
  EXPECT_EQ(found->place, "controller");
  EXPECT_EQ(found->remedy.empty(), found->state == State::kOk ||
                                       (found->state == State::kSkipped && found->remedy.empty()))
      << check;
  return *found;
}

TEST(ControllerChecks, FindNothingAmissInAHealthyFabric) {
  Findings findings;
  CheckController(Healthy(), findings);
  for (const Finding& finding : findings.all()) {
    EXPECT_EQ(finding.state, State::kOk) << finding.check << ": " << finding.found;
  }
  EXPECT_EQ(findings.all().size(), 8U);
}

TEST(ControllerChecks, PassTheHealthOn) {
  ControllerAnswers answers = Healthy();
  answers.status = Json(R"({"health": "failing", "health_reasons": ["1 flow has no path"],
                            "hosts": 4, "hosts_without_agent": 1})");
  EXPECT_EQ(Of(answers, "health").state, State::kFailed);
  EXPECT_EQ(Of(answers, "health").found, "1 flow has no path");
  EXPECT_EQ(Of(answers, "agents").state, State::kFailed);
  answers.status = Json("[]");
  EXPECT_EQ(Of(answers, "health").state, State::kSkipped);
}

// Equal seeds: the controller's own finding has the share and the paths.
TEST(ControllerChecks, NamePathsThatNoPortTakes) {
  ControllerAnswers answers = Healthy();
  AddEvent(answers, "paths_unreachable",
           "leaf=leaf0 toward=leaf2 unreachable=2 paths=4 via=agg0,core1,agg2,agg1,core2,agg3");
  AddEvent(answers, "paths_unreachable", "leaf=leaf2 toward=leaf0 unreachable=2 paths=4 via=a,b,c");
  const Finding finding = Of(answers, "polarisation");
  EXPECT_EQ(finding.state, State::kFailed);
  EXPECT_NE(finding.found.find("50 % of the paths from 2 leaves, such as 2 of 4 from leaf0 to "
                               "leaf2 (via agg0,core1"),
            std::string::npos)
      << finding.found;
  EXPECT_NE(finding.remedy.find("ecmp_hash_offset"), std::string::npos);
  // The fabric hashes otherwise since.
  AddEvent(answers, "fabric_rehashed", "");
  EXPECT_EQ(Of(answers, "polarisation").state, State::kOk);
}

TEST(ControllerChecks, SuspectPathsWithoutPortsIfManyPortsAreKnown) {
  ControllerAnswers answers = Healthy();
  const auto with = [&](int ports, int known) {
    answers.paths =
        Json(R"({"pairs_known": 1, "pairs": [{"source": "h0", "destination": "h2", "verified": )" +
             std::to_string(ports) + R"(, "predicted": 0, "reverify": 0, "paths_known": )" +
             std::to_string(known) + R"(, "paths": 4}]})");
    return answers;
  };
  // 20 ports that show two paths: a third of equal share has 0.1 % to hide.
  EXPECT_EQ(PortsThatShowAll(2), 20);
  EXPECT_EQ(PortsThatShowAll(16), 161);
  EXPECT_EQ(Of(with(19, 2), "polarisation").state, State::kSkipped);
  EXPECT_EQ(Of(with(20, 2), "polarisation").state, State::kWarning);
  EXPECT_EQ(Of(with(20, 2), "source_port").state, State::kOk);
  EXPECT_EQ(Of(with(20, 1), "source_port").state, State::kFailed);
  EXPECT_EQ(Of(with(5, 1), "source_port").state, State::kSkipped);
  // Where links are down, their paths have no ports.
  answers.status = Json(R"({"health": "degraded", "health_reasons": ["x"], "links_down": 1})");
  EXPECT_EQ(Of(with(20, 1), "source_port").state, State::kSkipped);
  EXPECT_EQ(Of(with(20, 2), "polarisation").state, State::kSkipped);
  EXPECT_EQ(Of(with(0, 0), "source_port").state, State::kSkipped);
}

TEST(ControllerChecks, NameTheSwitchThatSprays) {
  ControllerAnswers answers = Healthy();
  answers.status = Json(R"({"health": "degraded", "health_reasons": ["leaf0 sprays"],
                            "sprayed_hosts": ["h0", "h1"]})");
  AddEvent(answers, "switch_sprays", "switch=leaf1 host=h2");
  AddEvent(answers, "switch_sprays_no_longer", "switch=leaf1 host=h2");
  AddEvent(answers, "switch_sprays", "switch=leaf0 host=h0");
  const Finding finding = Of(answers, "spraying");
  EXPECT_EQ(finding.state, State::kWarning);
  EXPECT_EQ(finding.subject, "leaf0");
  EXPECT_NE(finding.found.find("hosts h0, h1"), std::string::npos) << finding.found;
  EXPECT_EQ(Of(answers, "health").state, State::kWarning);
}

TEST(ControllerChecks, ReadRefusalsClockAndCapacityFromEvents) {
  ControllerAnswers answers = Healthy();
  AddEvent(answers, "agent_refused", "agent=h9 reason=unknown");
  AddEvent(answers, "controller_late", "lag=1");
  EXPECT_EQ(Of(answers, "refusals").state, State::kWarning);
  EXPECT_EQ(Of(answers, "capacity").state, State::kFailed);
  AddEvent(answers, "controller_on_time", "");
  EXPECT_EQ(Of(answers, "capacity").state, State::kOk);
  AddEvent(answers, "pair_full", "");
  EXPECT_EQ(Of(answers, "capacity").state, State::kWarning);
  EXPECT_EQ(Of(answers, "clock").state, State::kOk);
  AddEvent(answers, "clock_behind_store", "");
  EXPECT_EQ(Of(answers, "clock").state, State::kFailed);
}

TEST(ControllerChecks, KnowNothingWithoutAnswersAndEndureHostileOnes) {
  ControllerAnswers answers;
  for (const char* const check : {"source_port", "polarisation", "spraying"}) {
    EXPECT_EQ(Of(answers, check).state, State::kSkipped) << check;
  }
  answers = Healthy();
  answers.paths = Json(R"({"pairs_known": "x", "pairs": [7, {"paths": -1}, {"paths": 1e300},
                           {"paths": 4, "paths_known": 9, "verified": "nan"}]})");
  answers.events = {Json("7"), Json("[]"), Json(R"({"kind": []})"),
                    Json(R"({"kind": "paths_unreachable", "text": "unreachable=x paths=0 leaf="})"),
                    Json(R"({"kind": "switch_sprays"})")};
  Findings findings;
  CheckController(answers, findings);
  EXPECT_EQ(findings.all().size(), 8U);
}

TEST(KeyFolderCheck, NamesAgentsWithoutAKeyTomorrow) {
  using std::chrono::hours;
  TemporaryFolder folder;
  const WallTime now = SystemWallTime();
  Findings none;
  CheckKeyFolder(folder.path() + "/none", true, now, none);
  EXPECT_TRUE(none.all().empty());
  {
    auto keys = identity::KeyFolder::Open(folder.path());
    ASSERT_TRUE(keys.has_value());
    ASSERT_TRUE(keys->MakeController(now).has_value());
    ASSERT_TRUE(keys->MakeAgents({"h0", "h1"}, now).has_value());
  }
  Findings good;
  CheckKeyFolder(folder.path(), true, now, good);
  ASSERT_EQ(good.all().size(), 1U);
  EXPECT_EQ(good.all()[0].state, State::kOk) << good.all()[0].found;
  {
    auto keys = identity::KeyFolder::Open(folder.path());
    ASSERT_TRUE(keys->RevokeAgent("h1", now).has_value());
  }
  Findings revoked;
  CheckKeyFolder(folder.path(), true, now, revoked);
  ASSERT_EQ(revoked.all().size(), 1U);
  EXPECT_EQ(revoked.all()[0].state, State::kWarning);
  EXPECT_NE(revoked.all()[0].found.find("a day: h1"), std::string::npos);
}

}  // namespace
}  // namespace espalier::doctor
