#include "common/fabric/path_predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
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

// The links among which the switch chooses where the `open` paths, the same until then, part.
std::vector<DirectedLink> Members(const Topology& topology, std::span<const Path> paths,
                                  std::span<const std::size_t> open, std::size_t hop) {
  std::vector<DirectedLink> members;
  for (const std::size_t path : open) {
    const DirectedLink next = paths[path].hops[hop];
    if (topology.link(next.link).state != LinkState::kDown) members.push_back(next);
  }
  const auto by_file_order = [](DirectedLink x, DirectedLink y) { return x.Index() < y.Index(); };
  std::sort(members.begin(), members.end(), by_file_order);
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

}  // namespace

// All choices of the switches between two leaves, in the present state of the links.
struct PathPredictor::Choices {
  struct Choice {
    Switch* node = nullptr;
    const Differences* differences = nullptr;  // for the latest layout; null if not linear
    std::vector<Target> targets;               // by what the hash chooses
  };

  NodeId source_leaf;
  NodeId destination_leaf;
  std::int64_t version = -1;  // of the topology
  Target first;
  std::vector<Choice> all;
  bool has_path = false;

  // Adds the choices of packets that may still take the `open` paths, which share all earlier hops.
  Target Add(const Topology& topology, std::vector<Switch>& switches, std::span<const Path> paths,
             std::vector<std::size_t> open, std::size_t hop) {
    const auto over = [&](DirectedLink member) {
      std::vector<std::size_t> left;
      std::ranges::copy_if(open, std::back_inserter(left),
                           [&](std::size_t path) { return paths[path].hops[hop] == member; });
      return left;
    };
    for (; hop < paths.front().hops.size(); ++hop) {
      const std::vector<DirectedLink> members = Members(topology, paths, open, hop);
      if (members.empty()) return {};
      if (members.size() == 1) {
        open = over(members.front());
        continue;
      }
      Switch& node = switches[topology.From(members.front()).Index()];
      if (node.hash == nullptr) return {};
      const std::size_t choice = all.size();
      all.push_back({&node, nullptr, {}});
      std::vector<Target> targets;
      for (const DirectedLink member : members) {
        targets.push_back(Add(topology, switches, paths, over(member), hop + 1));
      }
      all[choice].targets = std::move(targets);
      return {.choice = static_cast<std::int32_t>(choice)};
    }
    has_path = true;
    return {.path = static_cast<std::int32_t>(open.front())};
  }
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
    auto hash = MakeEcmpHash(*node.ecmp);
    if (!hash) {
      return Fail(hash.error().code, fmt::format("switch {}: {}", node.id, hash.error().message));
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
  *choices_ = {.source_leaf = source_leaf,
               .destination_leaf = destination_leaf,
               .version = topology_.version()};
  const std::span<const Path> paths = paths_.Between(source_leaf, destination_leaf);
  if (paths.empty()) return *choices_;
  std::vector<std::size_t> open(paths.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  choices_->first = choices_->Add(topology_, switches_, paths, std::move(open), 0);
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

std::optional<PathIndex> PathPredictor::Ports::Predict(std::uint16_t port) const {
  Target target = choices_->first;
  while (target.choice >= 0) {
    const auto at = static_cast<std::size_t>(target.choice);
    const Choices::Choice& choice = choices_->all[at];
    const std::size_t members = choice.targets.size();
    if (choice.differences != nullptr) {
      const auto offset = static_cast<std::size_t>(port - kFirstRocePort);
      const std::uint32_t value = first_values_[at] ^ choice.differences->high[offset / kHalf] ^
                                  choice.differences->low[offset % kHalf];
      target = choice.targets[value % members];
    } else {
      FlowTuple packet = tuple_;
      packet.source_port = port;
      target = choice.targets[choice.node->hash->Choose(packet, members)];
    }
  }
  if (target.path < 0) return std::nullopt;
  return PathIndex(target.path);
}

std::optional<PathIndex> PathPredictor::Predict(const FlowTuple& tuple, NodeId source_nic,
                                                NodeId destination_nic) {
  const auto ports = PortsOf(tuple, source_nic, destination_nic);
  return ports ? ports->Predict(tuple.source_port) : std::nullopt;
}

}  // namespace espalier::fabric
