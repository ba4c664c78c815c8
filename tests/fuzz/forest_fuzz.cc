#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "collective/forest/planner/planner.h"
#include "common/base/check.h"

namespace {

using espalier::BitsPerSecond;
using espalier::ErrorCode;
using espalier::fabric::DirectedLink;
using espalier::fabric::LinkId;
using espalier::fabric::LinkState;
using espalier::fabric::NodeId;
using espalier::fabric::NodeKind;
using espalier::fabric::Topology;
using espalier::fabric::TopologySpec;
using espalier::forest::Collective;
using espalier::forest::ScheduleOptions;
using espalier::forest::TreeSchedule;

// Takes decisions from a string of bytes; returns zeros after its end.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool Empty() const { return at_ == size_; }
  std::uint8_t Byte() { return Empty() ? 0 : data_[at_++]; }
  int Below(int limit) { return Byte() % limit; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

// Mostly small rates; also primes, rates slightly below, and ones near the limit.
BitsPerSecond TakeRate(Choices& choices) {
  constexpr std::int64_t kScales[] = {1'000'000'000,       12'500'000'000,           1, 999'999'937,
                                      100'000'000'000'000, 1'000'000'000'000'000'000};
  const std::int64_t factor = 1 + choices.Below(8);
  return BitsPerSecond{factor * kScales[choices.Below(6)]};
}

TopologySpec TakeTopology(Choices& choices) {
  TopologySpec spec;
  const int ranks = choices.Below(7);
  const int switches = choices.Below(4);
  const int nodes = ranks + switches;
  for (int i = 0; i < nodes; ++i) {
    auto& node = spec.nodes.emplace_back();
    node.id = fmt::format("n{}", i);
    node.kind = i < ranks ? NodeKind::kCompute : NodeKind::kSwitch;
    if (choices.Below(3) == 0) node.host = fmt::format("host{}", choices.Below(2));
  }
  if (nodes < 2) return spec;
  const auto join = [&](int a, int b, BitsPerSecond rate, bool directed, LinkState state) {
    if (a == b) return;
    auto& link = spec.links.emplace_back();
    link.a = NodeId(a);
    link.b = NodeId(b);
    link.rate = rate;
    link.directed = directed;
    link.state = state;
  };
  const int links = choices.Below(16);
  for (int i = 0; i < links; ++i) {
    const int kind = choices.Below(8);
    const int a = choices.Below(nodes);
    const int b = choices.Below(nodes);
    const BitsPerSecond rate = TakeRate(choices);
    if (kind == 0) {  // a ring of one-way links
      const int c = choices.Below(nodes);
      if (a == b || b == c || a == c) continue;
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, c), std::pair(c, a)}) {
        join(from, to, rate, true, LinkState::kUp);
      }
    } else {
      join(a, b, rate, kind == 1, kind == 2 ? LinkState::kDown : LinkState::kUp);
    }
  }
  return spec;
}

ScheduleOptions TakeOptions(Choices& choices, const Topology& topology) {
  ScheduleOptions options;
  options.collective = static_cast<Collective>(choices.Below(5));
  options.use_structure = choices.Below(2) == 0;
  options.height_steps = 2'000;
  const int count = choices.Below(4);
  if (count == 1) options.trees_per_weight = 1 + choices.Below(5);
  if (count == 2) options.max_trees_per_weight = 1 + choices.Below(5);
  const auto nodes = static_cast<int>(topology.nodes().size());
  if (nodes > 0 && choices.Below(2) == 0) options.root = NodeId(choices.Below(nodes));
  if (choices.Below(4) == 0) {
    for (int i = 0; i < nodes; ++i) {
      if (choices.Below(2) == 0) options.problem.ranks.push_back(NodeId(i));
    }
  }
  if (choices.Below(4) == 0) {
    const std::size_t ranks =
        options.problem.ranks.empty()
            ? static_cast<std::size_t>(std::ranges::count(topology.nodes(), NodeKind::kCompute,
                                                          &espalier::fabric::Node::kind))
            : options.problem.ranks.size();
    for (std::size_t i = 0; i < ranks; ++i) options.problem.weights.push_back(choices.Below(4));
  }
  if (choices.Below(4) == 0) {
    for (const auto& link : topology.links()) {
      for (int direction = 0; direction < 2; ++direction) {
        options.problem.available.push_back(BitsPerSecond{link.rate.value / 4 * choices.Below(5)});
      }
    }
  }
  return options;
}

// Changes the links between the same nodes: some fail, some are repaired, some get another rate.
TopologySpec Damage(Choices& choices, TopologySpec spec) {
  for (auto& link : spec.links) {
    const int kind = choices.Below(6);
    if (kind == 0) link.state = LinkState::kDown;
    if (kind == 1) link.state = LinkState::kUp;
    if (kind == 2) link.rate = TakeRate(choices);
  }
  return spec;
}

// Makes a schedule, which MakeTreeSchedule verifies, and checks that it is not faster than its
// bound, and equal to it if the number of trees and the share are free. None for an error in the
// input.
std::optional<TreeSchedule> CheckPlan(const Topology& topology, const ScheduleOptions& options) {
  auto made = espalier::forest::MakeTreeSchedule(topology, options);
  if (!made.has_value()) {
    ESPALIER_CHECK(made.error().code != ErrorCode::kInternal, "{}", made.error().message);
    ESPALIER_CHECK(made.error().code != ErrorCode::kUnavailable, "{}", made.error().message);
    return std::nullopt;
  }
  const TreeSchedule& plan = made->schedule;
  ESPALIER_CHECK(plan.bound_inverse_rate <= plan.inverse_rate);
  const bool free = options.trees_per_weight == 0 && options.max_trees_per_weight == 0 &&
                    options.problem.available.empty();
  ESPALIER_CHECK(!free || plan.bound_inverse_rate == plan.inverse_rate, "{} {}",
                 plan.bound_inverse_rate.ToString(), plan.inverse_rate.ToString());
  const auto& reuse = made->reuse;
  ESPALIER_CHECK(0 <= reuse.rerouted && reuse.rerouted <= reuse.kept && reuse.kept <= reuse.all,
                 "{} {} {}", reuse.rerouted, reuse.kept, reuse.all);
  return std::move(made->schedule);
}

}  // namespace

// Makes a schedule for a small topology and options, and, after some links have changed, schedules
// with and without trees of the first one, which must be equally fast.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Choices choices(data, size);
  const TopologySpec spec = TakeTopology(choices);
  const auto topology = Topology::Build(spec);
  if (!topology.has_value()) return 0;
  const auto plan = CheckPlan(*topology, TakeOptions(choices, *topology));
  if (!plan || choices.Empty()) return 0;

  const auto damaged = Topology::Build(Damage(choices, spec));
  if (!damaged.has_value()) return 0;
  ScheduleOptions options = TakeOptions(choices, *damaged);
  const auto anew = CheckPlan(*damaged, options);
  options.previous = espalier::forest::PreviousSchedule{&*plan, &*topology};
  const auto replanned = CheckPlan(*damaged, options);
  if (anew && replanned) {
    ESPALIER_CHECK(anew->inverse_rate == replanned->inverse_rate, "{} {}",
                   anew->inverse_rate.ToString(), replanned->inverse_rate.ToString());
  }
  return 0;
}
