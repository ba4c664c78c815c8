#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/fabric/builders.h"
#include "controller/link_tests/verdicts/link_verdict.h"
#include "proto/messages.h"

namespace espalier::controller {

// A leaf-spine fabric between whose hosts trains are drawn, and what they show. The number of an
// agent is that of its host.
class VerdictFixture : public testing::Test {
 protected:
  explicit VerdictFixture(const fabric::LeafSpineOptions& shape = {}, std::size_t liars = 1)
      : shape_(shape), liars_(liars) {}

  fabric::DirectedLink Direction(const std::string& arrow) const {
    for (std::size_t i = 0; i < 2 * topology_.links().size(); ++i) {
      const auto link = fabric::DirectedLink::FromIndex(i);
      if (ArrowOf(topology_, link) == arrow) return link;
    }
    ADD_FAILURE() << "no link " << arrow;
    return {};
  }
  void Lose(const std::string& arrow, double part, std::uint8_t protocol = 0) {
    losses_[Direction(arrow).Index()] = {part, protocol};
  }
  int LeafOf(int host) const { return host / shape_.hosts_per_leaf; }
  int hosts() const { return shape_.leaves * shape_.hosts_per_leaf; }

  // A train with nothing lost, and how many of its eight packets count.
  TrainOutcome Train(int from, int to, int spine, TimePoint at,
                     std::uint8_t protocol = wire::kProtocolUdp) const {
    const auto source = *paths_.FindAttachment(Host(from));
    const auto destination = *paths_.FindAttachment(Host(to));
    const auto paths = paths_.Between(source.leaf, destination.leaf);
    return {.at = at,
            .sender = AgentId(from),
            .receiver = AgentId(to),
            .protocol = protocol,
            .port = static_cast<std::uint16_t>(50'000 + spine),
            .route = static_cast<std::uint32_t>((from * hosts() + to) * shape_.spines + spine),
            .sent = 8,
            .arrived = 8,
            .counted = 7,
            .uplink = *source.uplink,
            .downlink = *destination.Downlink(),
            .hops = paths[static_cast<std::size_t>(spine)].hops};
  }
  // Draws what a train loses, as the losses of its links are.
  void Draw(TrainOutcome& train) {
    double passes = 1;
    train.ForEachLink([&](fabric::DirectedLink link) {
      const auto loss = losses_.find(link.Index());
      if (loss == losses_.end()) return;
      if (loss->second.second == 0 || loss->second.second == train.protocol) {
        passes *= 1 - loss->second.first;
      }
    });
    Lose(train, 1 - passes);
  }
  // Loses this part of the packets.
  void Lose(TrainOutcome& train, double part) {
    train.arrived = train.counted = train.lost = 0;
    bool next_arrives = false;  // nothing follows the last packet, which never counts
    for (int packet = 0; packet < 8; ++packet) {
      const bool arrives = !random_.Chance(part);
      if (arrives) ++train.arrived;
      if (next_arrives) ++train.counted;
      if (next_arrives && !arrives) ++train.lost;
      next_arrives = arrives;
    }
  }
  // Sends trains between random hosts, one in `gap`.
  void Send(int trains, Duration gap = std::chrono::milliseconds(10)) {
    for (int i = 0; i < trains; ++i, now_ += gap) {
      const int from = static_cast<int>(random_.Below(static_cast<std::uint64_t>(hosts())));
      int to = from;
      while (LeafOf(to) == LeafOf(from)) {
        to = static_cast<int>(random_.Below(static_cast<std::uint64_t>(hosts())));
      }
      const auto spines = static_cast<std::uint64_t>(shape_.spines);
      TrainOutcome train = Train(from, to, static_cast<int>(random_.Below(spines)), now_,
                                 random_.Chance(0.5) ? wire::kProtocolTcp : wire::kProtocolUdp);
      Draw(train);
      if (lie_) lie_(train);
      evidence_.Add(train);
    }
  }

  // What is found of this link, in all steps.
  std::optional<LossFinding> JudgeLink(fabric::DirectedLink link,
                                       const KnownFaults& known = {}) const {
    for (const std::size_t step : verdict_.StepsFor(link, known, now_)) {
      if (auto finding = verdict_.JudgeStep(link, step, known, now_)) return finding;
    }
    return std::nullopt;
  }
  // What is found of the links between switches, the known faults aside: links of kLink by name,
  // switches and NICs by their names, undecided links as "a|b".
  std::map<std::string, LossFinding> Judge(const KnownFaults& known = {}) const {
    std::map<std::string, LossFinding> found;
    for (const fabric::DirectedLink link : evidence_.Doubtful()) {
      if (!topology_.IsSwitchToSwitch(link.link) || known.links.contains(link.Index())) continue;
      if (auto finding = JudgeLink(link, known)) found.emplace(NameOf(*finding), *finding);
    }
    return found;
  }
  std::vector<std::string> Names(const KnownFaults& known = {}) const {
    std::vector<std::string> names;
    for (const auto& [name, finding] : Judge(known)) names.push_back(name);
    return names;
  }
  double SuspicionOf(const std::string& arrow) const {
    return verdict_.Suspicion(Direction(arrow), {}, now_, TimePoint{});
  }

  const fabric::LeafSpineOptions shape_;
  const std::size_t liars_;
  const fabric::Topology topology_ = *fabric::Topology::Build(*fabric::BuildLeafSpine(shape_));
  const fabric::PathTable paths_{topology_};
  LossEvidence evidence_{topology_.links().size()};
  LinkVerdict verdict_{topology_, paths_, evidence_,
                       [this](fabric::DirectedLink) { return liars_; }};
  Random random_{1};
  TimePoint now_{std::chrono::hours(1)};
  std::map<std::size_t, std::pair<double, std::uint8_t>> losses_;  // by DirectedLink::Index
  std::function<void(TrainOutcome&)> lie_;                         // of hosts

 private:
  fabric::NodeId Host(int number) const {
    return *topology_.FindNode("h" + std::to_string(number));
  }
  std::string NameOf(const LossFinding& finding) const {
    if (finding.kind == LossFinding::Kind::kSwitch || finding.kind == LossFinding::Kind::kNic) {
      return topology_.node(finding.node).id;
    }
    std::vector<std::string> names;
    for (const fabric::DirectedLink link : finding.links) names.push_back(ArrowOf(topology_, link));
    std::ranges::sort(names);
    std::string joined;
    for (const std::string& name : names) joined += (joined.empty() ? "" : "|") + name;
    return joined;
  }
};

}  // namespace espalier::controller
