// Tests with real processes that a running controller takes a topology over, and what later starts
// load.
#include <algorithm>
#include <array>

#include "tests/controller/daemon/daemon_fixture.h"

namespace espalier::controller {
namespace {

constexpr const char* kBefore = R"({"name": "two", "nodes": [
  {"id": "h0", "kind": "COMPUTE", "addresses": ["10.0.0.1"]},
  {"id": "h1", "kind": "COMPUTE", "addresses": ["10.0.0.2"]},
  {"id": "leaf0", "kind": "SWITCH", "role": "LEAF"},
  {"id": "leaf1", "kind": "SWITCH", "role": "LEAF"},
  {"id": "spine0", "kind": "SWITCH", "role": "SPINE"},
  {"id": "spine1", "kind": "SWITCH", "role": "SPINE"}], "links": [
  {"a": "h0", "b": "leaf0", "gbps": 100}, {"a": "h1", "b": "leaf1", "gbps": 100},
  {"a": "leaf0", "b": "spine0", "gbps": 100}, {"a": "leaf1", "b": "spine0", "gbps": 100},
  {"a": "leaf0", "b": "spine1", "gbps": 100}, {"a": "leaf1", "b": "spine1", "gbps": 100}]})";
// One more host, one link less.
constexpr const char* kAfter = R"({"name": "two", "nodes": [
  {"id": "h0", "kind": "COMPUTE", "addresses": ["10.0.0.1"]},
  {"id": "h1", "kind": "COMPUTE", "addresses": ["10.0.0.2"]},
  {"id": "h2", "kind": "COMPUTE", "addresses": ["10.0.0.3"]},
  {"id": "leaf0", "kind": "SWITCH", "role": "LEAF"},
  {"id": "leaf1", "kind": "SWITCH", "role": "LEAF"},
  {"id": "spine0", "kind": "SWITCH", "role": "SPINE"},
  {"id": "spine1", "kind": "SWITCH", "role": "SPINE"}], "links": [
  {"a": "h0", "b": "leaf0", "gbps": 100}, {"a": "h1", "b": "leaf1", "gbps": 100},
  {"a": "h2", "b": "leaf1", "gbps": 100},
  {"a": "leaf0", "b": "spine0", "gbps": 100}, {"a": "leaf1", "b": "spine0", "gbps": 200},
  {"a": "leaf0", "b": "spine1", "gbps": 100}]})";

class TopologyApply : public Daemon {
 protected:
  TopologyApply() { std::ofstream(Path("topology.json")) << kBefore; }
  io::HttpResponse Apply(const std::string& query, const std::string& body) {
    auto answer = io::HttpFetch("unix:" + Path("api.sock"), "POST",
                                "/api/v1/topology/apply?" + query, body, 60s);
    return answer ? std::move(*answer) : io::HttpResponse{.status = 0};
  }
  // Waits until the controller, which may be starting again, shows or no longer shows a node.
  void AwaitNode(const std::string& id, bool is_there) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (true) {
      const io::HttpResponse topology = CallUnix("GET", "topology");
      const bool found = topology.body.find("\"" + id + "\"") != std::string::npos;
      if (topology.status == 200 && found == is_there) return;
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << topology.body;
      std::this_thread::sleep_for(5ms);
    }
  }
  void StartAgain() {
    process_.reset();
    Start();
  }
};

TEST_F(TopologyApply, HoldsUntilTheConfiguredFileChanges) {
  Start();
  ASSERT_EQ(Act("links/drain?id=leaf1--spine1&force=true").status, 200);
  ASSERT_EQ(Act("links/drain?id=leaf0--spine0&force=true").status, 200);
  const io::HttpResponse would = Apply("dry_run=true", kAfter);
  ASSERT_EQ(would.status, 200) << would.body;
  EXPECT_THAT(would.body, HasSubstr("\"id\":\"h2\""));
  EXPECT_THAT(would.body, HasSubstr("100 -> 200 Gbit/s"));
  EXPECT_THAT(would.body, HasSubstr("drained link leaf1--spine1"));
  AwaitNode("h2", false);
  const io::HttpResponse done = Apply("reason=rack", kAfter);
  ASSERT_EQ(done.status, 200) << done.body;
  AwaitNode("h2", true);
  AwaitEvent("intents_forgotten");
  EXPECT_THAT(Intents(), Not(HasSubstr("leaf1--spine1")));
  EXPECT_THAT(Intents(), HasSubstr("leaf0--spine0"));
  EXPECT_EQ(Apply("", kAfter).status, 409) << "it is in force";
  StartAgain();
  AwaitNode("h2", true);
  // An edit of the configured file is newer than what was applied.
  std::ofstream(Path("topology.json")) << kBefore << "\n";
  StartAgain();
  AwaitNode("h2", false);
  AwaitEvent("applied_topology_discarded");
  std::ofstream(Path("topology.json")) << kBefore;
  StartAgain();
  AwaitNode("h2", false);
}

// Regression: two admins who applied two topologies with the same base both got 200, and one was
// lost.
TEST_F(TopologyApply, OneOfTwoWithTheSameBaseIsRefused) {
  Start();
  const io::HttpResponse would = Apply("dry_run=true", kAfter);
  const auto begin = would.body.find("\"base\":\"") + 8;
  const std::string base = "base=" + would.body.substr(begin, would.body.find('"', begin) - begin);
  std::string other = kAfter;
  other.replace(other.find("10.0.0.3"), 8, "10.0.0.4");
  std::array<int, 2> statuses{};
  std::thread second([&] { statuses[1] = Apply(base, other).status; });
  statuses[0] = Apply(base, kAfter).status;
  second.join();
  // The later one may find the controller starting again.
  EXPECT_EQ(std::ranges::count(statuses, 200), 1) << statuses[0] << " and " << statuses[1];
}

TEST_F(TopologyApply, RefusesBadFilesAndAnOldBase) {
  Start();
  const io::HttpResponse bad = Apply("", "{\"name\": 3");
  EXPECT_EQ(bad.status, 400);
  EXPECT_THAT(bad.body, HasSubstr("topology:1:"));
  EXPECT_EQ(Apply("", "").status, 400);
  const io::HttpResponse stale = Apply("base=0123", kAfter);
  EXPECT_EQ(stale.status, 409);
  EXPECT_THAT(stale.body, HasSubstr("applied in the meantime"));
  EXPECT_EQ(Apply("force=maybe", kAfter).status, 400);
  EXPECT_EQ(Ask("POST", "/api/v1/topology/apply", Token(Role::kViewer)).status, 403);
  AwaitNode("h2", false);
  std::filesystem::create_directory(store_ + ".topology.next");
  EXPECT_NE(Apply("", kAfter).status, 200) << "it cannot be made durable";
  AwaitNode("h2", false);
}

TEST_F(TopologyApply, SaysWhichFileIsDamaged) {
  std::ofstream(store_ + ".topology") << "rubbish";
  Start();  // it is not for the configured file
  AwaitNode("h0", true);
  AwaitEvent("applied_topology_discarded");
}

}  // namespace
}  // namespace espalier::controller
