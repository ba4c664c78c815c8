#include "collective/forest/flow_graph.h"

#include <algorithm>
#include <utility>

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
  const bool search_from = Ports(from).size() <= Ports(to).size();
  const Port* port = search_from ? FindPort(from, to) : FindPort(to, from);
  std::int32_t out = 0;
  if (port != nullptr) {
    out = search_from ? port->out : port->out ^ 1;
  } else {
    if (free_pairs_.empty()) {
      out = static_cast<std::int32_t>(capacity_.size());
      capacity_.resize(capacity_.size() + 2, 0);
    } else {
      out = free_pairs_.back();
      free_pairs_.pop_back();
    }
    ports_[static_cast<std::size_t>(from)].push_back({to, out});
    ports_[static_cast<std::size_t>(to)].push_back({from, out ^ 1});
  }
  std::int64_t& capacity = capacity_[static_cast<std::size_t>(out)];
  capacity += amount;
  ESPALIER_CHECK(capacity >= 0, "from={} to={} capacity={}", from, to, capacity);
}

void FlowGraph::Isolate(std::int32_t node) {
  for (const Port& port : Ports(node)) {
    ESPALIER_CHECK(capacity(port.out) == 0 && capacity(port.out ^ 1) == 0, "node={}", node);
    std::vector<Port>& theirs = ports_[static_cast<std::size_t>(port.node)];
    const auto found = std::find_if(theirs.begin(), theirs.end(),
                                    [&](const Port& back) { return back.node == node; });
    std::swap(*found, theirs.back());
    theirs.pop_back();
    free_pairs_.push_back(port.out & ~1);
  }
  ports_[static_cast<std::size_t>(node)].clear();
}

}  // namespace espalier::forest
