#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/fabric/ecmp/train_token.h"
#include "tests/controller/cluster.h"
#include "tests/controller/train_hosts.h"

namespace espalier::controller {

// A controller whose hosts test the links of a simulated fabric, some of which lie.
class TestedCluster {
 public:
  explicit TestedCluster(std::uint64_t seed = 1,
                         const fabric::LeafSpineOptions& shape = {.spines = 4,
                                                                  .leaves = 4,
                                                                  .hosts_per_leaf = 4})
      : cluster_(shape, Options(seed)), random_(seed) {
    hosts_.troubles().SetSeed(seed);
    const auto carry_out = cluster_.on_train_order;
    cluster_.on_train_order = [this, carry_out](int host, const wire::TrainOrder& order) {
      Note(host, order);
      carry_out(host, order);
    };
    hosts_.forge = [this](int, wire::TrainReport& report) {
      for (wire::ReceivedTrain& train : report.received) Lie(train);
    };
    cluster_.ConnectAll();
    cluster_.Advance(std::chrono::seconds(5));  // ports become known
  }

  // A train, as its ends know it.
  struct Known {
    int from = 0;
    int to = 0;
    int spine = 0;
    std::string key;
  };
  // The part of a train's packets whose arrival its receiver denies, or which its sender keeps
  // back and claims to have sent. Empty: nobody lies.
  std::function<double(const Known& train)> denied;

  void Lose(const std::string& arrow, const sim::LossRule& rule) {
    hosts_.troubles().SetLoss(Direction(arrow), rule);
  }
  // Both directions of a link lose everything, and switches still use it.
  void Kill(const std::string& link, double part = 1) {
    const fabric::LinkId id = *topology().FindLink(link);
    for (const bool forward : {true, false}) {
      hosts_.troubles().SetLoss({id, forward}, {.probability = part});
    }
  }
  // A host reports that this path of a flow of its own is dead.
  void ReportDead(int host, std::uint32_t path, wire::PathBasis basis, std::uint64_t flow = 1) {
    Report(host, {.flow = wire::LocalFlowId(flow),
                  .path_id = path,
                  .source_port = 50'000,
                  .verdict = wire::PathVerdict::kDead,
                  .basis = basis});
  }
  void Report(int host, const wire::FlowHealth& health) {
    const Cluster::Host& own = cluster_.host(host);
    cluster_.Deliver(own.peer, own.instance, wire::PathHealth{.flows = {health}});
  }

  fabric::DirectedLink Direction(const std::string& arrow) {
    for (std::size_t i = 0; i < 2 * topology().links().size(); ++i) {
      const auto link = fabric::DirectedLink::FromIndex(i);
      if (ArrowOf(topology(), link) == arrow) return link;
    }
    ADD_FAILURE() << "no link " << arrow;
    return {};
  }
  const fabric::Topology& topology() { return cluster_.state().topology; }
  // The links that are not UP, as "leaf0--spine1 DRAINED".
  std::vector<std::string> OutOfUse() {
    std::vector<std::string> links;
    for (const fabric::Link& link : topology().links()) {
      if (link.state == fabric::LinkState::kUp) continue;
      links.push_back(link.id + (link.state == fabric::LinkState::kDown ? " DOWN" : " DRAINED"));
    }
    std::ranges::sort(links);
    return links;
  }
  // The directions that tests have found faulty.
  std::vector<std::string> Faulty() {
    std::vector<std::string> arrows;
    for (const auto& [link, fault] : cluster_.state().link_faults) {
      arrows.push_back(ArrowOf(topology(), fault.direction));
    }
    std::ranges::sort(arrows);
    return arrows;
  }
  // How many seconds pass until then; the limit: it does not happen.
  double SecondsUntil(const std::function<bool()>& has_happened, Duration limit) {
    Duration passed{};
    for (; passed < limit && !has_happened(); passed += std::chrono::milliseconds(50)) {
      cluster_.Advance(std::chrono::milliseconds(50));
    }
    return SecondsOf(passed);
  }
  std::int64_t CountEvents(const std::string& kind) {
    const auto events = cluster_.state().history.Since(0, 100'000);
    return std::ranges::count(events, kind, &HistoryEvent::kind);
  }
  std::string LastOf(const std::string& kind) {
    std::string text = "(none)";
    for (const HistoryEvent& event : cluster_.state().history.Since(0, 100'000)) {
      if (event.kind == kind) text = event.text;
    }
    return text;
  }
  Cluster& cluster() { return cluster_; }
  TrainHosts& hosts() { return hosts_; }
  std::int64_t urgent_orders() const { return urgent_orders_; }

 private:
  static ControllerOptions Options(std::uint64_t seed) {
    ControllerOptions options;
    options.fabric_hashes_protocol = false;  // what UDP probes learn holds for TCP, too
    options.link_tests.seed = seed;
    return options;
  }
  void Note(int host, const wire::TrainOrder& order) {
    // Trains of the sweep start later.
    urgent_orders_ += std::ranges::any_of(
        order.trains, [](const wire::Train& train) { return train.start_us < 100'000; });
    for (const wire::Train& train : order.trains) {
      const int to = cluster_.NumberOf(order.addresses[train.destination]);
      known_[train.number] = {host, to, cluster_.SpineOf(host, to, train.source_port), order.key};
    }
  }
  void Lie(wire::ReceivedTrain& train) {
    const auto known = known_.find(train.number);
    if (!denied || known == known_.end()) return;
    const double part = denied(known->second);
    std::vector<std::int64_t> delays;
    std::size_t at = 0;
    for (std::uint8_t i = 0; i < 16; ++i) {
      if ((train.arrived_mask >> i & 1) == 0) continue;
      const std::int64_t delay = train.delays_us[at++];
      if (random_.Chance(part)) {
        train.arrived_mask = static_cast<std::uint16_t>(train.arrived_mask & ~(1U << i));
        train.digest ^= fabric::TrainToken(known->second.key, train.number, i);
      } else {
        delays.push_back(delay);
      }
    }
    train.marked_mask = static_cast<std::uint16_t>(train.marked_mask & train.arrived_mask);
    train.delays_us = delays;
  }

  Cluster cluster_;
  Random random_;
  TrainHosts hosts_{cluster_};
  std::map<std::uint64_t, Known> known_;  // by number
  std::int64_t urgent_orders_ = 0;
};

}  // namespace espalier::controller
