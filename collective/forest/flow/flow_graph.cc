#include "collective/forest/flow/flow_graph.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::forest {

FlowGraph::FlowGraph(std::int32_t node_count)
    : ports_(static_cast<std::size_t>(node_count)),
      supply_(static_cast<std::size_t>(node_count), 0) {}

const FlowGraph::Port* FlowGraph::FindPort(std::int32_t from, std::int32_t to) const {
  for (const Port& port : Ports(from)) {
    if (port.node == to) return &port;
  }
  return nullptr;
}

std::int64_t FlowGraph::Capacity(std::int32_t from, std::int32_t to) const {
  if (Ports(from).size() <= Ports(to).size()) {
    const Port* port = FindPort(from, to);
    return port == nullptr ? 0 : capacity(port->out);
  }
  const Port* port = FindPort(to, from);
  return port == nullptr ? 0 : capacity(port->out ^ 1);
}

void FlowGraph::Add(std::int32_t from, std::int32_t to, std::int64_t amount) {
  if (amount == 0) return;
  const bool search_from = Ports(from).size() <= Ports(to).size();
  const Port* port = search_from ? FindPort(from, to) : FindPort(to, from);
  const std::int32_t out = port == nullptr ? AddPair(from, to)
                           : search_from   ? port->out
                                           : port->out ^ 1;
  std::int64_t& changed = capacity_[static_cast<std::size_t>(out)];
  changed += amount;
  ESPALIER_CHECK(changed >= 0, "from={} to={} capacity={}", from, to, changed);
  if (changed == 0 && capacity(out ^ 1) == 0) {
    ErasePort(from, to);
    ErasePort(to, from);
    free_pairs_.push_back(out & ~1);
  }
}

std::int32_t FlowGraph::AddPair(std::int32_t from, std::int32_t to) {
  std::int32_t out = 0;
  if (free_pairs_.empty()) {
    out = static_cast<std::int32_t>(capacity_.size());
    capacity_.resize(capacity_.size() + 2, 0);
  } else {
    out = free_pairs_.back();
    free_pairs_.pop_back();
  }
  ports_[static_cast<std::size_t>(from)].push_back({to, out});
  ports_[static_cast<std::size_t>(to)].push_back({from, out ^ 1});
  return out;
}

void FlowGraph::ErasePort(std::int32_t from, std::int32_t to) {
  std::vector<Port>& ports = ports_[static_cast<std::size_t>(from)];
  const auto found =
      std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.node == to; });
  *found = ports.back();
  ports.pop_back();
}

}  // namespace espalier::forest
