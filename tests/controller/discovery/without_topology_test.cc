// A controller without a topology and agents whose names it does not know: it discovers their
// fabric, and what it answers becomes a topology file.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "common/sim/sim_world.h"
#include "controller/api/actions/discovery_action.h"
#include "controller/controller.h"
#include "controller/offline/imports/combine.h"
#include "controller/offline/imports/discovered.h"
#include "controller/store/memory_store.h"
#include "proto/decode.h"
#include "proto/encode.h"
#include "tests/controller/discovery/probe_world.h"

namespace espalier::controller {
namespace {

class ControllerWithoutTopology : public testing::Test, private Bus {
 protected:
  ControllerWithoutTopology()
      : fabric_(fabric::BuildLeafSpine({.spines = 3, .leaves = 4, .hosts_per_leaf = 2}).value(),
                {}),
        loop_(world_.MakeLoop()),
        store_(disk_, *loop_),
        controller_(fabric::Topology::Build({.name = "none"}).value(), {}, *loop_,
                    static_cast<Bus&>(*this), store_, metrics_) {
    EXPECT_TRUE(controller_.Start().has_value());
    std::map<std::string, wire::Hello> hellos;
    for (const discovery::Endpoint& nic : fabric_.Endpoints()) {
      wire::Hello& hello = hellos[nic.host];
      hello.name = nic.host;
      hello.features = {"probe"};
      hello.nics.push_back({.address = nic.address, .device = "eth0"});
    }
    for (auto& [name, hello] : hellos) {
      const PeerId peer(names_.size() + 1);
      names_[peer] = name;
      Deliver(peer, std::move(hello));
    }
    Run(std::chrono::seconds(1));
  }

  void Run(Duration time) {
    constexpr Duration kStep = std::chrono::milliseconds(50);
    for (Duration done{}; done < time; done += kStep) {
      world_.RunFor(kStep);
      for (auto& [peer, body] : std::exchange(replies_, {})) Deliver(peer, std::move(body));
    }
  }

  Result<std::string> Discover(const std::map<std::string, std::string>& query) {
    return StartDiscovery(controller_, {.method = "POST",
                                        .path = "/api/v1/topology/discover",
                                        .query = query,
                                        .body = "",
                                        .from_unix_socket = true,
                                        .peer = "user ada"});
  }

  discovery::ProbeWorld fabric_;
  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> loop_;
  MemoryDisk disk_;
  MemoryStore store_;
  Metrics metrics_;
  Controller controller_;

 private:
  void SetHandlers(Handlers handlers) override { handlers_ = std::move(handlers); }
  void Disconnect(PeerId) override {}
  std::optional<std::string> AuthenticatedName(PeerId) const override { return std::nullopt; }
  bool Send(PeerId to, std::string bytes) override {
    const auto decoded = decoder_.Decode(bytes);
    EXPECT_TRUE(decoded.has_value());
    const wire::Body& body = (*decoded)->body;
    if (const auto* order = std::get_if<wire::ProbeOrder>(&body)) {
      replies_.emplace_back(to, Probe(*order));
    } else if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&body)) {
      replies_.emplace_back(to, wire::Heartbeat{0, heartbeat->epoch, heartbeat->generation});
    } else if (const auto* push = std::get_if<wire::PathPush>(&body)) {
      replies_.emplace_back(to, wire::Ack{.epoch = push->epoch, .generation = push->generation});
    }
    return true;
  }
  wire::ProbeReport Probe(const wire::ProbeOrder& order) {
    wire::ProbeReport report{.order = order.order, .done = true};
    for (const std::uint16_t port : order.source_ports) {
      for (const std::uint8_t ttl : order.ttls) {
        const auto answer = fabric_.Probe(order.source, order.destination, port, ttl);
        if (answer) report.answers.push_back({port, ttl, *answer, 10});
      }
    }
    return report;
  }
  void Deliver(PeerId peer, wire::Body body) {
    handlers_.on_message(peer, wire::Encode({peer.value(), std::move(body)}));
  }

  Handlers handlers_;
  wire::Decoder decoder_;
  std::map<PeerId, std::string> names_;
  std::vector<std::pair<PeerId, wire::Body>> replies_;
};

TEST_F(ControllerWithoutTopology, DiscoversTheFabricOfItsAgents) {
  ASSERT_TRUE(Discover({}).has_value());
  Run(std::chrono::minutes(3));
  EXPECT_EQ(controller_.discovery_run().phase(), discovery::DiscoveryRun::Phase::kComplete);
  const discovery::Found& found = controller_.discovery_run().found();
  EXPECT_EQ(fabric_.Difference(found.fabric, found.nics), "");
  const auto cabling = imports::ReadDiscovery(DiscoveryView(controller_), "answer");
  ASSERT_TRUE(cabling.has_value()) << cabling.error().message;
  const auto imported = imports::Combine(std::vector{*cabling}, {.name = "found"});
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  EXPECT_EQ(imported->spec.nodes.size(), fabric_.topology().nodes().size());
  EXPECT_EQ(imported->spec.links.size(), fabric_.topology().links().size());
  EXPECT_TRUE(imported->missing.empty());
}

TEST_F(ControllerWithoutTopology, RefusesNetworksWithoutNicsAndWrongParameters) {
  EXPECT_EQ(Discover({{"network", "192.0.2.0/24"}}).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(Discover({{"network", "10.0.0.0/33"}}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(Discover({{"fresh", "maybe"}}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(controller_.discovery_run().phase(), discovery::DiscoveryRun::Phase::kNone);
  ASSERT_TRUE(Discover({{"network", "192.0.2.0/24,10.0.0.0/8"}}).has_value());
}

}  // namespace
}  // namespace espalier::controller
