#include "common/fabric/path_predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace espalier::fabric {

Result<PathPredictor> PathPredictor::Build(const Topology& topology, PathTable& paths) {
  PathPredictor predictor(topology, paths);
  predictor.hashes_.resize(topology.nodes().size());
  for (std::size_t i = 0; i < predictor.hashes_.size(); ++i) {
    const Node& node = topology.nodes()[i];
    if (!node.ecmp) continue;
    auto hash = MakeEcmpHash(*node.ecmp);
    if (!hash) {
      return Fail(hash.error().code, fmt::format("switch {}: {}", node.id, hash.error().message));
    }
    predictor.hashes_[i] = std::move(*hash);
  }
  return predictor;
}

std::optional<PathIndex> PathPredictor::Predict(const FlowTuple& tuple, NodeId source_nic,
                                                NodeId destination_nic) {
  const auto source = paths_.FindAttachment(source_nic);
  const auto destination = paths_.FindAttachment(destination_nic);
  if (!source || !destination) return std::nullopt;
  const std::span<const Path> paths = paths_.Between(source->leaf, destination->leaf);
  if (paths.empty()) return std::nullopt;

  open_.resize(paths.size());
  std::iota(open_.begin(), open_.end(), std::size_t{0});
  const std::size_t hops = paths.front().hops.size();
  for (std::size_t hop = 0; hop < hops; ++hop) {
    members_.clear();
    for (const std::size_t path : open_) {
      const DirectedLink next = paths[path].hops[hop];
      if (topology_.link(next.link).state != LinkState::kDown) members_.push_back(next);
    }
    const auto by_file_order = [](DirectedLink x, DirectedLink y) { return x.Index() < y.Index(); };
    std::sort(members_.begin(), members_.end(), by_file_order);
    members_.erase(std::unique(members_.begin(), members_.end()), members_.end());
    if (members_.empty()) return std::nullopt;
    std::size_t choice = 0;
    if (members_.size() > 1) {
      const auto& hash = hashes_[topology_.From(members_.front()).Index()];
      if (hash == nullptr) return std::nullopt;
      choice = hash->Choose(tuple, members_.size());
    }
    std::erase_if(open_,
                  [&](std::size_t path) { return paths[path].hops[hop] != members_[choice]; });
  }
  return PathIndex(static_cast<std::int32_t>(open_.front()));
}

}  // namespace espalier::fabric
