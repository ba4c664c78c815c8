#include "collective/synthesis/graphs/digraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "common/base/check.h"

namespace espalier::synthesis {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

Digraph::Digraph(std::int32_t node_count, std::vector<Arc> arcs)
    : node_count_(node_count), into_(At(node_count) + 1, 0) {
  std::sort(arcs.begin(), arcs.end(), [](const Arc& x, const Arc& y) {
    return std::tie(x.head, x.tail) < std::tie(y.head, y.tail);
  });
  std::vector<std::int64_t> in(At(node_count), 0);
  std::vector<std::int64_t> out(At(node_count), 0);
  for (const Arc& arc : arcs) {
    ESPALIER_CHECK(arc.tail >= 0 && arc.tail < node_count && arc.head >= 0 &&
                   arc.head < node_count && arc.capacity > 0);
    out[At(arc.tail)] += arc.capacity;
    in[At(arc.head)] += arc.capacity;
    if (arc.tail == arc.head) {
      has_self_loops_ = true;
    } else if (!arcs_.empty() && arcs_.back().tail == arc.tail && arcs_.back().head == arc.head) {
      arcs_.back().capacity += arc.capacity;
    } else {
      arcs_.push_back(arc);
      ++into_[At(arc.head) + 1];
    }
  }
  std::partial_sum(into_.begin(), into_.end(), into_.begin());
  for (std::size_t n = 0; n < in.size(); ++n) degree_ = std::max({degree_, in[n], out[n]});
  for (std::size_t n = 0; n < in.size(); ++n) {
    is_regular_ = is_regular_ && in[n] == degree_ && out[n] == degree_;
  }
}

std::int32_t Digraph::Find(std::int32_t tail, std::int32_t head) const {
  const auto [begin, end] = Into(head);
  const auto found = std::lower_bound(arcs_.begin() + begin, arcs_.begin() + end, tail,
                                      [](const Arc& arc, std::int32_t t) { return arc.tail < t; });
  if (found == arcs_.begin() + end || found->tail != tail) return -1;
  return static_cast<std::int32_t>(found - arcs_.begin());
}

bool Digraph::IsSimple() const {
  return !has_self_loops_ &&
         std::ranges::all_of(arcs_, [](const Arc& arc) { return arc.capacity == 1; });
}

bool Digraph::IsBidirectional() const {
  return std::ranges::all_of(arcs_, [&](const Arc& arc) {
    const std::int32_t reverse = Find(arc.head, arc.tail);
    return reverse >= 0 && arcs_[At(reverse)].capacity == arc.capacity;
  });
}

Digraph Digraph::Transpose() const {
  std::vector<Arc> arcs;
  for (const Arc& arc : arcs_) arcs.push_back({arc.head, arc.tail, arc.capacity});
  Digraph transpose(node_count_, std::move(arcs));
  transpose.degree_ = degree_;
  transpose.has_self_loops_ = has_self_loops_;
  transpose.is_regular_ = is_regular_;
  return transpose;
}

void Digraph::DistancesTo(std::int32_t target, std::span<std::uint16_t> distances) const {
  std::ranges::fill(distances, kUnreachable);
  distances[At(target)] = 0;
  std::vector<std::int32_t> queue{target};
  queue.reserve(At(node_count_));
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const std::int32_t node = queue[head];
    const auto next = static_cast<std::uint16_t>(distances[At(node)] + 1);
    const auto [begin, end] = Into(node);
    for (std::int32_t a = begin; a < end; ++a) {
      const std::int32_t tail = arcs_[At(a)].tail;
      if (distances[At(tail)] != kUnreachable) continue;
      distances[At(tail)] = next;
      queue.push_back(tail);
    }
  }
}

std::optional<Translations> Translations::Find(const Digraph& graph) {
  const std::int32_t count = graph.node_count();
  const auto keeps_arcs = [&](const Digit& digit) {
    const auto step = [&](std::int32_t node) {
      const std::int32_t value = node / digit.stride % digit.modulus;
      return node + ((value + 1) % digit.modulus - value) * digit.stride;
    };
    return std::ranges::all_of(graph.arcs(), [&](const Arc& arc) {
      const std::int32_t image = graph.Find(step(arc.tail), step(arc.head));
      return image >= 0 && graph.arcs()[At(image)].capacity == arc.capacity;
    });
  };
  // Digits whose strides multiply to each divisor, the lowest digit first.
  std::map<std::int32_t, std::vector<Digit>> known{{1, {}}};
  for (std::int32_t stride = 1; stride < count; ++stride) {
    const auto before = known.find(stride);
    if (before == known.end()) continue;
    for (std::int32_t modulus = 2; modulus <= count / stride; ++modulus) {
      const Digit digit{stride, modulus};
      if (count % (stride * modulus) != 0 || known.contains(stride * modulus)) continue;
      if (!keeps_arcs(digit)) continue;
      std::vector<Digit> digits = before->second;
      digits.push_back(digit);
      known[stride * modulus] = std::move(digits);
    }
  }
  const auto found = known.find(count);
  if (found == known.end() || count < 2) return std::nullopt;
  Translations translations;
  translations.digits_ = std::move(found->second);
  return translations;
}

std::int32_t Translations::Move(std::int32_t node, std::int32_t by) const {
  std::int32_t moved = 0;
  for (const auto& [stride, modulus] : digits_) {
    moved += (node / stride + by / stride) % modulus * stride;
  }
  return moved;
}

std::int32_t Translations::Negate(std::int32_t by) const {
  std::int32_t moved = 0;
  for (const auto& [stride, modulus] : digits_) {
    moved += (modulus - by / stride % modulus) % modulus * stride;
  }
  return moved;
}

Result<void> CheckConnected(const Digraph& graph) {
  std::vector<std::uint16_t> distances(At(graph.node_count()));
  const auto check = [&](const Digraph& of, bool reversed) -> Result<void> {
    of.DistancesTo(0, distances);
    const auto lost = std::ranges::find(distances, Digraph::kUnreachable);
    if (lost == distances.end()) return {};
    const auto node = lost - distances.begin();
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("node {} cannot reach node {} (connect the network)",
                            reversed ? 0 : node, reversed ? node : 0));
  };
  if (auto to = check(graph, false); !to) return Propagate(to);
  return check(graph.Transpose(), true);
}

Result<DirectNetwork> ReadNetwork(const fabric::Topology& topology) {
  const auto count = static_cast<std::int64_t>(topology.nodes().size());
  for (const fabric::Node& node : topology.nodes()) {
    if (node.kind == fabric::NodeKind::kCompute) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("node \"{}\" is a {} (schedules of steps need a direct-connect network "
                            "of compute nodes; `espalier forest` accepts switches)",
                            node.id, fabric::NodeKindName(node.kind)));
  }
  if (count < 2 || count > kMaxNodes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the topology has {} nodes (give 2 to {})", count, kMaxNodes));
  }
  std::int64_t unit = 0;
  for (const fabric::Link& link : topology.links()) {
    if (link.state == fabric::LinkState::kUp) unit = std::gcd(unit, link.rate.value);
  }
  std::vector<Arc> arcs;
  for (const fabric::Link& link : topology.links()) {
    if (link.state != fabric::LinkState::kUp) continue;
    const std::int64_t capacity = link.rate.value / unit;
    if (capacity > kMaxCapacity) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("link \"{}\": its bandwidth is {} times the common unit of all links "
                              "(round the bandwidths)",
                              link.id, capacity));
    }
    arcs.push_back({link.a.value(), link.b.value(), capacity});
    if (!link.directed) arcs.push_back({link.b.value(), link.a.value(), capacity});
  }
  return DirectNetwork{Digraph(static_cast<std::int32_t>(count), std::move(arcs)),
                       BitsPerSecond{std::max<std::int64_t>(unit, 1)}};
}

fabric::TopologySpec WriteNetwork(std::string name, const Digraph& graph, BitsPerSecond rate) {
  fabric::TopologySpec spec{.name = std::move(name), .version = 1, .nodes = {}, .links = {}};
  for (std::int32_t n = 0; n < graph.node_count(); ++n) {
    spec.nodes.emplace_back().id = fmt::format("n{}", n);
  }
  for (const Arc& arc : graph.arcs()) {
    const std::int32_t reverse = graph.Find(arc.head, arc.tail);
    const std::int64_t back = reverse < 0 ? 0 : graph.arcs()[At(reverse)].capacity;
    const std::int64_t both = std::min(arc.capacity, back);
    // The smaller tail writes the links of both directions.
    for (std::int64_t i = arc.tail < arc.head ? 0 : both; i < arc.capacity; ++i) {
      fabric::Link& link = spec.links.emplace_back();
      link.a = fabric::NodeId(arc.tail);
      link.b = fabric::NodeId(arc.head);
      link.rate = rate;
      link.directed = i >= both;
    }
  }
  return spec;
}

}  // namespace espalier::synthesis
