#include "collective/forest/flow/pull_flow.h"

#include <algorithm>
#include <span>

namespace espalier::forest {

PullFlow::PullFlow(FlowGraph& graph)
    : graph_(graph),
      supply_left_(graph.ports_.size(), 0),
      contracted_(graph.ports_.size(), 0),
      levelled_(graph.ports_.size(), 0),
      level_(graph.ports_.size(), 0),
      cursor_(graph.ports_.size(), 0),
      drawn_(graph.ports_.size(), 0) {}

std::int64_t PullFlow::Deficit(std::int32_t sink, std::int64_t need) {
  return Run(sink, need, true);
}

bool PullFlow::Reaches(std::int32_t sink, std::int64_t need) { return Run(sink, need, false) == 0; }

std::int64_t PullFlow::Run(std::int32_t sink, std::int64_t need, bool exact) {
  ++flow_;
  saved_.resize(graph_.capacity_.size() / 2, 0);
  std::int64_t missing = need;
  while (missing > 0) {
    const std::int64_t seen = BuildLevels(sink, missing);
    if (seen == 0 || (!exact && seen < missing)) break;
    missing -= Pull(sink, missing);
  }
  Undo();
  return missing;
}

std::int64_t PullFlow::BuildLevels(std::int32_t sink, std::int64_t missing) {
  ++phase_;
  std::int64_t seen = 0;
  queue_.clear();
  const auto reach = [&](std::int32_t node, std::int32_t level) {
    const auto index = static_cast<std::size_t>(node);
    levelled_[index] = phase_;
    level_[index] = level;
    cursor_[index] = 0;
    if (drawn_[index] != flow_) {
      drawn_[index] = flow_;
      supply_left_[index] = graph_.supply_[index];
    }
    seen += supply_left_[index];
    queue_.push_back(node);
  };
  reach(sink, 0);
  for (std::size_t i = 0; i < queue_.size() && seen < missing; ++i) {
    const std::int32_t node = queue_[i];
    const std::int32_t level = level_[static_cast<std::size_t>(node)] + 1;
    for (const FlowGraph::Port& port : graph_.Ports(node)) {
      ++steps_;
      const std::int64_t residual = graph_.capacity(port.out ^ 1);
      const auto neighbour = static_cast<std::size_t>(port.node);
      if (residual == 0 || levelled_[neighbour] == phase_) continue;
      if (IsContracted(neighbour)) {
        seen += residual;
      } else {
        reach(port.node, level);
      }
      if (seen >= missing) break;
    }
  }
  return seen;
}

std::int64_t PullFlow::Pull(std::int32_t sink, std::int64_t want) {
  stack_.assign(1, {sink, want, 0});
  while (true) {
    if (const std::optional<Frame> next = Advance(stack_.back())) {
      stack_.push_back(*next);
      continue;
    }
    const Frame ended = stack_.back();
    stack_.pop_back();
    if (stack_.empty()) return ended.got;
    Frame& top = stack_.back();
    std::int32_t& cursor = cursor_[static_cast<std::size_t>(top.node)];
    const FlowGraph::Port& port = graph_.Ports(top.node)[static_cast<std::size_t>(cursor)];
    MoveAlong(port.out ^ 1, ended.got);
    top.got += ended.got;
    if (ended.got < ended.want) ++cursor;  // it has nothing more to give in this phase
  }
}

std::optional<PullFlow::Frame> PullFlow::Advance(Frame& top) {
  const auto node = static_cast<std::size_t>(top.node);
  const std::int64_t own = std::min(supply_left_[node], top.want - top.got);
  supply_left_[node] -= own;
  top.got += own;
  const std::span<const FlowGraph::Port> ports = graph_.Ports(top.node);
  std::int32_t& cursor = cursor_[node];
  for (; top.got < top.want && static_cast<std::size_t>(cursor) < ports.size(); ++cursor) {
    ++steps_;
    const FlowGraph::Port& port = ports[static_cast<std::size_t>(cursor)];
    const auto neighbour = static_cast<std::size_t>(port.node);
    const std::int64_t amount = std::min(graph_.capacity(port.out ^ 1), top.want - top.got);
    if (amount == 0) continue;
    if (IsContracted(neighbour)) {
      MoveAlong(port.out ^ 1, amount);
      top.got += amount;
      if (top.got == top.want) break;
    } else if (levelled_[neighbour] == phase_ && level_[neighbour] == level_[node] + 1) {
      return Frame{port.node, amount, 0};
    }
  }
  return std::nullopt;
}

void PullFlow::MoveAlong(std::int32_t in, std::int64_t amount) {
  if (amount == 0) return;
  const auto pair = static_cast<std::size_t>(in) / 2;
  std::int64_t* capacity = graph_.capacity_.data() + 2 * pair;
  if (saved_[pair] != flow_) {
    saved_[pair] = flow_;
    saved_pairs_.push_back({2 * pair, capacity[0], capacity[1]});
  }
  capacity[in & 1] -= amount;
  capacity[(in & 1) ^ 1] += amount;
}

void PullFlow::Undo() {
  for (const SavedPair& saved : saved_pairs_) {
    graph_.capacity_[saved.out] = saved.forward;
    graph_.capacity_[saved.out + 1] = saved.backward;
  }
  saved_pairs_.clear();
}

}  // namespace espalier::forest
