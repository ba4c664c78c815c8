// Compares everything that a controller answers, sends and stores in one scenario of a small
// cluster with a golden file. A change of the code without a change of behaviour must not change
// the file. ESPALIER_WRITE_GOLDEN=1 writes it again after an intended change.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/time/wall_time.h"
#include "controller/api/operator_api.h"
#include "controller/intents/intent_text.h"
#include "tests/controller/cluster.h"
#include "tests/controller/golden_file.h"

namespace espalier::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ControllerOptions FixedOptions() {
  ControllerOptions options;
  options.instance = 42;
  options.wall_clock = [] { return WallTime(std::chrono::seconds(1'790'000'000)); };
  return options;
}

// Processor times differ between runs.
std::string WithoutMeasuredTimes(const std::string& metrics) {
  static const std::regex kSeconds("\n[a-z_]+_seconds(_[a-z]+)?(\\{[^}]*\\})? [^\n]*");
  return std::regex_replace(metrics, kSeconds, "");
}

// The order of metrics in their text form has no meaning: it is that of their registration.
std::string InOrder(const std::string& metrics) {
  constexpr std::string_view kFamily = "# HELP ";
  std::vector<std::string> families;
  for (std::size_t begin = 0; begin < metrics.size();) {
    const std::size_t next = metrics.find(kFamily, begin + 1);
    families.push_back(metrics.substr(begin, next - begin));
    begin = std::min(next, metrics.size());
  }
  std::sort(families.begin(), families.end());
  std::string sorted;
  for (const std::string& family : families) sorted += family;
  return sorted;
}

class ControllerGolden : public testing::Test {
 protected:
  ControllerGolden()
      : cluster_({.spines = 2, .leaves = 3, .hosts_per_leaf = 2}, FixedOptions()),
        api_(cluster_.controller(), metrics_, [] { return io::HttpResponse{}; }) {
    // The keys of jobs are derived from a random secret.
    cluster_.state().job_secret = *JobKey::Parse(std::string(64, '7'));
  }

  std::string Call(const std::string& method, const std::string& target,
                   std::map<std::string, std::string> query, const std::string& body = {}) {
    std::optional<io::HttpResponse> answer;
    api_.Handle({.method = method,
                 .path = target,
                 .query = std::move(query),
                 .body = body,
                 .from_unix_socket = true,
                 .peer = "user ada"},
                [&](io::HttpResponse response) { answer = std::move(response); });
    cluster_.Settle();
    for (int i = 0; i < 3 && !answer; ++i) cluster_.Advance(milliseconds(50));
    if (!answer) return "no answer";
    return fmt::format("{} {}", answer->status, answer->body);
  }
  void Act(const std::string& target, const std::map<std::string, std::string>& query,
           const std::string& body = {}) {
    story_ += fmt::format("\n# POST {}", target);
    for (const auto& [name, value] : query) story_ += fmt::format(" {}={}", name, value);
    story_ += "\n" + Call("POST", "/api/v1/" + target, query, body) + "\n";
  }
  void Ask(const std::string& target, const std::map<std::string, std::string>& query = {}) {
    story_ += fmt::format("\n# GET {}", target);
    for (const auto& [name, value] : query) story_ += fmt::format(" {}={}", name, value);
    story_ += "\n" + Call("GET", "/api/v1/" + target, query) + "\n";
  }
  // All views, and a digest of every byte that was sent to agents.
  void LookAtAll(const std::string& when) {
    story_ += "\n## " + when + "\n";
    for (const char* view : {"status", "flows", "jobs", "links", "agents", "intents", "predict",
                             "policies", "forests", "plans", "audit"}) {
      Ask(view);
    }
    for (const FlowSlot slot : cluster_.state().flows.All()) {
      Ask("flows/explain", {{"flow", cluster_.state().FlowName(cluster_.state().flows.At(slot))}});
    }
    for (const auto& [name, edge] : cluster_.state().edges.all()) {
      Ask("flows/explain", {{"flow", cluster_.state().FlowName(name.agent, name.number)}});
    }
    story_ += fmt::format("\n# sent to agents: {:016x}\n", cluster_.sent_digest());
  }

  void FlowsStartAndIterate() {
    cluster_.ConnectAll();
    // Two jobs that share links; a flow with two paths, one within a leaf, one without a job, one
    // that may not move, and one whose port an earlier controller has chosen.
    cluster_.Open(0,
                  {{.id = 1, .to = 2, .job = "A"}, {.id = 2, .to = 4, .job = "B", .max_paths = 2}});
    cluster_.Open(1, {{.id = 1, .to = 3, .job = "A"}, {.id = 2, .to = 0, .job = "B"}});
    cluster_.Open(
        2, {{.id = 7, .to = 5, .job = "A", .movable = false}, {.id = 8, .to = 0, .job = ""}});
    cluster_.Open(4, {{.id = 3, .to = 1, .job = "A", .port = 50'000, .steered = true}});
    cluster_.Settle();
    cluster_.Advance(seconds(1));
    Ask("topology");
    Ask("path-map");
    LookAtAll("flows have started");

    // Iterations from which the predictor learns the next starts.
    for (int round = 0; round < 3; ++round) {
      cluster_.End(0, 1);
      cluster_.End(1, 1);
      cluster_.Advance(milliseconds(200));
      cluster_.Open(0, {{.id = 1, .to = 2, .job = "A"}});
      cluster_.Open(1, {{.id = 1, .to = 3, .job = "A"}});
      cluster_.Advance(milliseconds(300));
    }
    LookAtAll("three iterations");
  }
  void LinksAndPoliciesChange() {
    Act("links/fail", {{"id", "leaf0--spine0"}, {"dry_run", "true"}});
    Act("links/fail", {{"id", "leaf0--spine0"}, {"reason", "cable"}});
    Act("links/fail", {{"id", "leaf0--spine0"}});
    Act("links/fail", {{"id", "nothing"}});
    Act("links/drain", {{"id", "leaf1--spine1"}, {"until", "2026-12-24T12:00:00Z"}});
    Act("links/report", {}, R"({"link": "leaf2--spine1", "up": false, "source": "feed"})");
    cluster_.Advance(seconds(1));
    LookAtAll("links are out of use");

    Act("nodes/drain", {{"id", "spine1"}, {"dry_run", "true"}});
    Act("nodes/fail", {{"id", "h5"}});
    Act("jobs/weight", {{"id", "A"}, {"weight", "3"}});
    Act("policies/set", {{"id", "moves_per_start"}, {"value", "2"}});
    Act("policies/set", {{"id", "moves_per_start"}, {"value", "many"}});
    Act("recompute", {{"dry_run", "true"}});
    Act("recompute", {});
    Act("links/restore", {{"id", "leaf0--spine0"}});
    cluster_.Advance(seconds(1));
    LookAtAll("weights and policies");
  }
  void AJobRunsOnTrees() {
    Act("jobs/start", {}, R"({"name": "train", "ranks": ["h0", "h2", "h4"], "bytes": 1000000})");
    Act("jobs/start", {}, R"({"name": "train", "ranks": ["h0", "h9"]})");
    Act("jobs/start", {{"dry_run", "true"}}, R"({"name": "dry", "ranks": ["h1", "h3"]})");
    cluster_.Advance(seconds(2));
    Ask("forests/plan", {{"job", "train"}});
    LookAtAll("a job runs on trees");

    Act("nodes/fail", {{"id", "spine1"}});
    cluster_.Advance(seconds(1));
    LookAtAll("its spine has failed");
    Act("nodes/restore", {{"id", "spine1"}});
    Act("jobs/stop", {{"id", "train"}});
    Act("jobs/stop", {{"id", "train"}});
    Act("rollback", {{"to", "1"}});
    Act("jobs/schedule", {},
        R"({"job": "S", "flows": [["h0", "h4"], ["h4", "h0"]], "bytes": 1000})");
  }
  void AnAgentDoesNotAnswer() {
    cluster_.End(1, 2);
    cluster_.host(3).acknowledges = false;
    cluster_.Open(3, {{.id = 9, .to = 0, .job = "C"}});
    cluster_.Advance(seconds(5));
    LookAtAll("an agent does not answer");
    Ask("events");
    story_ += "\n# metrics\n" + InOrder(WithoutMeasuredTimes(cluster_.MetricsText()));
  }
  void WriteDownWhatIsStored() {
    for (const auto& [revision, set] : cluster_.disk.sets) {
      const Intents& intents = set.first;
      for (const auto& [kind, by_id] : {std::pair("failed link", &intents.failed_links),
                                        {"failed node", &intents.failed_nodes},
                                        {"drained link", &intents.drained_links},
                                        {"drained node", &intents.drained_nodes},
                                        {"restored link", &intents.restored_links},
                                        {"job", &intents.jobs},
                                        {"weight", &intents.weights},
                                        {"policy", &intents.policies}}) {
        for (const auto& [id, intent] : *by_id) {
          story_ += fmt::format("# stored in {}: {} {}: {}\n", revision, kind, id,
                                FormatIntentValue(intent.value));
        }
      }
    }
  }

  Metrics metrics_;
  Cluster cluster_;
  OperatorApi api_;
  std::string story_;
};

TEST_F(ControllerGolden, MatchesTheGoldenFile) {
  FlowsStartAndIterate();
  LinksAndPoliciesChange();
  AJobRunsOnTrees();
  AnAgentDoesNotAnswer();
  WriteDownWhatIsStored();
  golden::ExpectGolden(ESPALIER_GOLDEN "/controller.txt", story_);
}

}  // namespace
}  // namespace espalier::controller
