#include "common/fabric/ecmp/path_predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace espalier::fabric {
namespace {

constexpr std::size_t kHalf = 128;  // ports are split into high and low bits
static_assert(kHalf * kHalf == kRocePortCount);

// The differences of a hash depend on where the port is among the hashed bytes.
std::size_t LayoutOf(const FlowTuple& tuple) {
  const bool is_v4 = tuple.source.IsV4() && tuple.destination.IsV4();
  return (is_v4 ? 0U : 2U) + (tuple.destination_qpn == 0 ? 0U : 1U);
}

}  // namespace

// All choices of the switches between two leaves, in the present state of the links. They are made
// again for each pair of leaves, so memory is used again.
struct PathPredictor::Choices {
  struct Choice {
    Switch* node = nullptr;
    const Differences* differences = nullptr;  // for the latest layout; null if not linear
    std::size_t first_target = 0;              // by what the hash chooses
    std::size_t members = 0;
  };

  NodeId source_leaf;
  NodeId destination_leaf;
  std::int64_t version = -1;  // of the topology
  Target first;
  std::vector<Choice> all;
  std::vector<Target> targets;  // of all choices
  bool has_path = false;
};

// Makes the choices of the switches on these paths.
class PathPredictor::ChoiceMaker {
 public:
  ChoiceMaker(const Topology& topology, std::vector<Switch>& switches, std::span<const Path> paths,
              Choices& choices)
      : topology_(topology), switches_(switches), paths_(paths), choices_(choices) {}

  void Make() {
    choices_.all.clear();
    choices_.targets.clear();
    choices_.has_path = false;
    std::vector<std::size_t> all(paths_.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    choices_.first = all.empty() ? Target{} : Add(all, 0);
  }

 private:
  // The paths among these that begin with the same link at this hop as the first of them.
  std::span<std::size_t> SameLink(std::span<std::size_t> paths, std::size_t hop) const {
    const DirectedLink link = paths_[paths.front()].hops[hop];
    const auto end = std::ranges::find_if(
        paths, [&](std::size_t path) { return paths_[path].hops[hop] != link; });
    return paths.first(static_cast<std::size_t>(end - paths.begin()));
  }
  std::size_t WeightOf(std::span<const std::size_t> paths, std::size_t hop) const {
    return static_cast<std::size_t>(topology_.WeightOf(paths_[paths.front()].hops[hop]));
  }
  bool IsDown(DirectedLink hop) const { return topology_.link(hop.link).state == LinkState::kDown; }

  // Adds the choices of packets that may still take the `open` paths, which share all earlier hops.
  Target Add(std::span<std::size_t> open, std::size_t hop) {
    for (; hop < paths_.front().hops.size(); ++hop) {
      const auto link_of = [&](std::size_t path) { return paths_[path].hops[hop].Index(); };
      if (!std::ranges::is_sorted(open, {}, link_of)) std::ranges::stable_sort(open, {}, link_of);
      std::size_t links = 0;
      std::size_t members = 0;  // of which a link is as many as its weight
      std::span<std::size_t> over_last;
      for (auto left = open; !left.empty();) {
        const auto same = SameLink(left, hop);
        left = left.subspan(same.size());
        if (IsDown(paths_[same.front()].hops[hop])) continue;
        ++links;
        members += WeightOf(same, hop);
        over_last = same;
      }
      if (links == 0) return {.path = kDeadEnd};
      if (links > 1) return AddChoice(open, hop, members);
      open = over_last;
    }
    choices_.has_path = true;
    return {.path = static_cast<std::int32_t>(open.front())};
  }

  // The switch chooses among the links of the open paths, which lie side by side, in file order.
  Target AddChoice(std::span<std::size_t> open, std::size_t hop, std::size_t members) {
    Switch& node = switches_[topology_.From(paths_[open.front()].hops[hop]).Index()];
    if (node.hash == nullptr) return {};
    const std::size_t first_target = choices_.targets.size();
    const auto choice = static_cast<std::int32_t>(choices_.all.size());
    choices_.all.push_back({&node, nullptr, first_target, members});
    choices_.targets.resize(first_target + members);
    for (std::size_t next = first_target; !open.empty();) {
      const auto same = SameLink(open, hop);
      open = open.subspan(same.size());
      if (IsDown(paths_[same.front()].hops[hop])) continue;
      const Target target = Add(same, hop + 1);
      for (std::size_t i = WeightOf(same, hop); i > 0; --i) choices_.targets[next++] = target;
    }
    return {.choice = choice};
  }

  const Topology& topology_;
  std::vector<Switch>& switches_;
  const std::span<const Path> paths_;
  Choices& choices_;
};

PathPredictor::PathPredictor(const Topology& topology, PathTable& paths)
    : topology_(topology), paths_(paths), choices_(std::make_unique<Choices>()) {}
PathPredictor::PathPredictor(PathPredictor&&) noexcept = default;
PathPredictor::~PathPredictor() = default;

Result<PathPredictor> PathPredictor::Build(const Topology& topology, PathTable& paths) {
  PathPredictor predictor(topology, paths);
  predictor.switches_.resize(topology.nodes().size());
  for (std::size_t i = 0; i < predictor.switches_.size(); ++i) {
    const Node& node = topology.nodes()[i];
    if (!node.ecmp) continue;
    auto hash = MakeHashOf(node);
    if (!hash) {
      const char* const kind = node.kind == NodeKind::kSwitch ? "switch" : "NIC";
      return Fail(hash.error().code, fmt::format("{} {}: {}", kind, node.id, hash.error().message));
    }
    predictor.switches_[i].hash = std::move(*hash);
  }
  return predictor;
}

const PathPredictor::Choices& PathPredictor::ChoicesBetween(NodeId source_leaf,
                                                            NodeId destination_leaf) {
  const bool is_known = source_leaf == choices_->source_leaf &&
                        destination_leaf == choices_->destination_leaf &&
                        choices_->version == topology_.version();
  if (is_known) return *choices_;
  choices_->source_leaf = source_leaf;
  choices_->destination_leaf = destination_leaf;
  choices_->version = topology_.version();
  ChoiceMaker(topology_, switches_, paths_.Between(source_leaf, destination_leaf), *choices_)
      .Make();
  return *choices_;
}

const PathPredictor::Differences* PathPredictor::DifferencesOf(Switch& node, FlowTuple tuple) {
  std::unique_ptr<Differences>& known = node.differences[LayoutOf(tuple)];
  if (known) return known.get();
  tuple.source_port = kFirstRocePort;
  const auto first = node.hash->LinearValue(tuple);
  if (!first) return nullptr;
  known = std::make_unique<Differences>();
  for (std::size_t bit = 1; bit < kRocePortCount; bit *= 2) {
    tuple.source_port = static_cast<std::uint16_t>(kFirstRocePort + bit);
    const std::uint32_t difference = *node.hash->LinearValue(tuple) ^ *first;
    auto& half = bit < kHalf ? known->low : known->high;
    const std::size_t done = bit < kHalf ? bit : bit / kHalf;
    for (std::size_t i = 0; i < done; ++i) half[done + i] = half[i] ^ difference;
  }
  return known.get();
}

std::optional<PathPredictor::Ports> PathPredictor::PortsOf(const FlowTuple& tuple,
                                                           NodeId source_nic,
                                                           NodeId destination_nic) {
  const auto source = paths_.FindAttachment(source_nic);
  const auto destination = paths_.FindAttachment(destination_nic);
  if (!source || !destination) return std::nullopt;
  if (!ChoicesBetween(source->leaf, destination->leaf).has_path) return std::nullopt;
  Ports ports;
  ports.choices_ = choices_.get();
  ports.tuple_ = tuple;
  ports.tuple_.source_port = kFirstRocePort;
  for (Choices::Choice& choice : choices_->all) {
    choice.differences = DifferencesOf(*choice.node, tuple);
    ports.first_values_.push_back(choice.node->hash->LinearValue(ports.tuple_).value_or(0));
  }
  return ports;
}

std::int32_t PathPredictor::Ports::Follow(std::uint16_t port) const {
  Target target = choices_->first;
  while (target.choice >= 0) {
    const auto at = static_cast<std::size_t>(target.choice);
    const Choices::Choice& choice = choices_->all[at];
    const auto targets = std::span(choices_->targets).subspan(choice.first_target, choice.members);
    if (choice.differences != nullptr && port >= kFirstRocePort) {
      const auto offset = static_cast<std::size_t>(port - kFirstRocePort);
      const std::uint32_t value = first_values_[at] ^ choice.differences->high[offset / kHalf] ^
                                  choice.differences->low[offset % kHalf];
      target = targets[value % choice.members];
    } else {
      FlowTuple packet = tuple_;
      packet.source_port = port;
      target = targets[choice.node->hash->Choose(packet, choice.members)];
    }
  }
  return target.path;
}

std::optional<PathIndex> PathPredictor::Ports::Predict(std::uint16_t port) const {
  const std::int32_t path = Follow(port);
  if (path < 0) return std::nullopt;
  return PathIndex(path);
}

bool PathPredictor::Ports::LeadsToDeadEnd(std::uint16_t port) const {
  return Follow(port) == kDeadEnd;
}

std::optional<PathIndex> PathPredictor::Predict(const FlowTuple& tuple, NodeId source_nic,
                                                NodeId destination_nic) {
  const auto ports = PortsOf(tuple, source_nic, destination_nic);
  return ports ? ports->Predict(tuple.source_port) : std::nullopt;
}

}  // namespace espalier::fabric
