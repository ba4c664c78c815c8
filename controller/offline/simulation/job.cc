#include "controller/offline/simulation/job.h"

#include <utility>

namespace espalier::offline {
namespace {

using fabric::NodeId;

std::int64_t PartOf(std::int64_t bytes, std::size_t parts) {
  const auto divisor = static_cast<std::int64_t>(parts);
  return (bytes + divisor - 1) / divisor;
}

}  // namespace

Exchange MakeRing(const std::vector<NodeId>& nics, std::int64_t bytes) {
  Exchange ring{.flows = {}, .round_bytes = PartOf(bytes, nics.size())};
  ring.rounds = 2 * (static_cast<int>(nics.size()) - 1);
  for (std::size_t i = 0; i < nics.size(); ++i) {
    ring.flows.push_back({nics[i], nics[(i + 1) % nics.size()]});
  }
  return ring;
}

Exchange MakeChain(const std::vector<NodeId>& nics, std::int64_t bytes) {
  Exchange chain{.flows = {}, .round_bytes = bytes};
  for (std::size_t i = 1; i < nics.size(); ++i) chain.flows.push_back({nics[i - 1], nics[i]});
  return chain;
}

Exchange MakeAllToAll(const std::vector<NodeId>& nics, std::int64_t bytes) {
  Exchange exchange{.flows = {}, .round_bytes = PartOf(bytes, nics.size())};
  for (std::size_t i = 0; i < nics.size(); ++i) {
    for (std::size_t step = 1; step < nics.size(); ++step) {
      exchange.flows.push_back({nics[i], nics[(i + step) % nics.size()]});
    }
  }
  return exchange;
}

Exchange MakeReduceTree(const std::vector<NodeId>& nics, std::int64_t bytes) {
  Exchange tree{.flows = {}, .round_bytes = bytes};
  for (std::size_t i = 1; i < nics.size(); ++i) {
    tree.flows.push_back({nics[i], nics[(i - 1) / 2]});
  }
  return tree;
}

Exchange MakeBroadcastTree(const std::vector<NodeId>& nics, std::int64_t bytes) {
  Exchange tree = MakeReduceTree(nics, bytes);
  for (Exchange::Flow& flow : tree.flows) std::swap(flow.source, flow.destination);
  return tree;
}

}  // namespace espalier::offline
