#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/fabric/builders.h"
#include "common/fabric/ecmp/train_token.h"
#include "common/sim/sim_world.h"
#include "controller/links/link_health.h"
#include "controller/store/memory_store.h"

namespace espalier::controller {

// The health of the links of a small fabric, with agents "h0" to "h3" and the orders to them.
class LinkFixture : public testing::Test {
 protected:
  explicit LinkFixture(LinkMonitorOptions options = {}) : options_(options) {
    for (int i = 0; i < 4; ++i) {
      const AgentId id = state_.agents.Intern("h" + std::to_string(i));
      state_.agents.Connect(id, PeerId(static_cast<std::uint64_t>(i) + 1));
      state_.agents.At(id).features = {"link_tests"};
    }
    LearnPorts();
    world_.RunFor(std::chrono::hours(1));
    Restart();
  }

  // Another controller on the same disk.
  void Restart() {
    health_.reset();
    health_ = std::make_unique<LinkHealth>(
        state_,
        LinkHealth::Options{.monitor = options_, .tests = {.seed = 1}, .hashes_protocol = false},
        [this] { return wall_; }, *loop_, *store_, learner_,
        LinkHealth::Callbacks{
            .find_prober = [this](fabric::NodeId nic) { return ProberOf(nic); },
            .send = [this](AgentId agent,
                           wire::TrainOrder order) { sent_.emplace_back(agent, std::move(order)); },
            .request_turn = [] {},
            .predict_return = [this](const UsedPort&) { return return_path_; },
            .on_change = [this] { ++changes_; }},
        *(metrics_ = std::make_unique<Metrics>()));
  }
  // The ports 50,000 to 50,003 of trains take the paths 0 to 3.
  void LearnPorts() {
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        if (from == to) continue;
        const fabric::PortKey key{.source = Node("h" + std::to_string(from)),
                                  .destination = Node("h" + std::to_string(to)),
                                  .protocol = wire::kProtocolUdp,
                                  .destination_port = TestRoutes::kDestinationPort};
        for (int path = 0; path < 4; ++path) {
          state_.path_map.Observe(key, static_cast<std::uint16_t>(50'000 + path),
                                  fabric::PathIndex(path));
        }
      }
    }
  }
  std::optional<AgentId> ProberOf(fabric::NodeId nic) const {
    if (!agents_probe_) return std::nullopt;
    return state_.agents.FindByName(state_.topology.node(nic).id);
  }
  fabric::LinkId Link(const std::string& id) const { return *state_.topology.FindLink(id); }
  fabric::NodeId Node(const std::string& id) const { return *state_.topology.FindNode(id); }
  AgentId Agent(const std::string& name) const { return *state_.agents.FindByName(name); }
  IpAddress Address(const std::string& host) const {
    return state_.topology.node(Node(host)).addresses.front();
  }
  void Settle() { world_.RunFor(std::chrono::milliseconds(1)); }
  void Pass(Duration duration) {
    world_.RunFor(duration);
    health_->Tick();
    Settle();
  }
  void FeedSays(const std::string& link, bool up) {
    health_->HandleFeedReport(Link(link), up, "gnmi");
    Settle();
  }
  // Reports all trains that were ordered, as hosts do whose trains pass.
  void AnswerTrains() {
    for (const auto& [sender, order] : std::exchange(sent_, {})) {
      for (const wire::Train& train : order.trains) {
        wire::ReceivedTrain received{.number = train.number, .arrived_mask = 0xFF};
        for (std::uint8_t i = 0; i < 8; ++i) {
          received.digest ^= fabric::TrainToken(order.key, train.number, i);
        }
        received.delays_us.assign(8, 20);
        const auto nic = *state_.topology.FindNic(order.addresses[train.destination]);
        health_->tester().HandleReport(sender, {.sent = {{train.number, 0xFF, 70}}});
        health_->tester().HandleReport(*ProberOf(nic), {.received = {received}});
      }
    }
  }
  // Time passes, and trains do.
  void PassTrains(int seconds) {
    for (int i = 0; i < 10 * seconds; ++i) {
      Pass(std::chrono::milliseconds(100));
      AnswerTrains();
    }
  }
  // The source ports of the urgent trains that were ordered.
  std::set<std::uint16_t> UrgentPorts() const {
    std::set<std::uint16_t> ports;
    for (const auto& [agent, order] : sent_) {
      if (!order.urgent) continue;
      for (const wire::Train& train : order.trains) ports.insert(train.source_port);
    }
    return ports;
  }
  bool IsDown(const std::string& link) const { return health_->IsDown(Link(link)); }
  std::size_t EventsOf(const std::string& kind) const {
    std::size_t count = 0;
    for (const HistoryEvent& event : state_.history.Since(0, 10'000)) count += event.kind == kind;
    return count;
  }
  std::string LastOf(const std::string& kind) const {
    std::string text = "(none)";
    for (const HistoryEvent& event : state_.history.Since(0, 10'000)) {
      if (event.kind == kind) text = event.text;
    }
    return text;
  }

  LinkMonitorOptions options_;
  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  WallTime wall_{std::chrono::hours(1'000)};
  State state_{*fabric::Topology::Build(
      *fabric::BuildLeafSpine({.spines = 4, .leaves = 4, .hosts_per_leaf = 1}))};
  MemoryDisk disk_;
  std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>(disk_, *loop_);
  Metrics learner_metrics_;
  PathLearner learner_{state_.topology, state_.paths, state_.path_map, {}, learner_metrics_};
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<LinkHealth> health_;
  std::vector<std::pair<AgentId, wire::TrainOrder>> sent_;
  int changes_ = 0;  // of which LinkHealth has told
  bool agents_probe_ = true;
  std::optional<fabric::PathIndex> return_path_;  // of every TCP port
};

}  // namespace espalier::controller
