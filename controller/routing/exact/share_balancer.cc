#include "controller/routing/exact/share_balancer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

constexpr double kHot = 0.9;            // of the greatest load: flows on such links are looked at
constexpr double kConverged = 0.001;    // relative gain of kSweeps sweeps that ends a power
constexpr int kSweeps = 8;              // between two looks at the gain
constexpr int kMostLooks = 32;          // of one power
constexpr double kLeastCostGap = 1e-6;  // between two paths worth a shift
// What an uneven part costs, in parts of what the busiest link costs. At the highest power, a part
// of twice the even one is worth 0.16 % of load.
constexpr double kUneven = 0.1;
constexpr std::int64_t kGrainUnits = kLoadUnit / kShareGrain;

// Works on the shares of one assignment, in parts of a flow.
class Balance {
 public:
  Balance(const FabricView& view, std::span<const Commodity> commodities,
          std::span<const std::uint8_t> is_rigid, std::span<const std::int64_t> base_loads,
          const Assignment& present)
      : view_(view), commodities_(commodities), present_(present) {
    const std::vector<std::int64_t> loads = ComputeLoads(view, commodities, present);
    loads_.resize(loads.size());
    for (std::size_t link = 0; link < loads.size(); ++link) {
      const std::int64_t base = base_loads.empty() ? 0 : base_loads[link];
      loads_[link] = static_cast<double>(loads[link] + base) / static_cast<double>(kLoadUnit);
    }
    for (std::size_t i = 0; i < commodities.size(); ++i) {
      if (is_rigid[i] == 0 && HasPaths(i)) AddFlow(i);
    }
  }

  // Shifts shares at falling smoothness. `steps`: how many subflows may be looked at.
  void Run(std::int64_t steps) {
    for (power_ = 8; power_ <= 64 && steps > 0; power_ *= 2) {
      double before = Greatest();
      for (int look = 0; look < kMostLooks && steps > 0; ++look) {
        for (int sweep = 0; sweep < kSweeps && steps > 0; ++sweep) Sweep(steps);
        const double after = Greatest();
        if (after > before * (1 - kConverged)) break;
        before = after;
      }
    }
  }

  Assignment Rounded() const {
    Assignment result = present_;
    if (result.shares.empty()) {
      for (const Commodity& commodity : commodities_) {
        result.shares.insert(result.shares.end(), commodity.subflows,
                             kLoadUnit / commodity.subflows);
      }
    }
    for (const Flow& flow : flows_) {
      if (flow.has_changed) Round(flow, result);
    }
    return result;
  }

 private:
  struct Flow {
    std::size_t commodity = 0;
    std::size_t first = 0;  // into parts_ and hop_begin_
    std::size_t count = 0;
    bool has_changed = false;
  };

  // Whether the flow has several subflows, all on usable paths.
  bool HasPaths(std::size_t i) const {
    const Commodity& commodity = commodities_[i];
    const auto paths = present_.PathsOf(i);
    if (paths.size() < 2 || commodity.source == commodity.destination) return false;
    std::vector<std::uint32_t> hops;
    return std::ranges::all_of(paths, [&](std::int32_t path) {
      hops.clear();
      if (path != kNoPath) view_.AppendHops(commodity.source, commodity.destination, path, hops);
      return path != kNoPath && view_.IsUsable(hops);
    });
  }

  void AddFlow(std::size_t i) {
    flows_.push_back({i, parts_.size(), present_.PathsOf(i).size()});
    for (std::size_t at = present_.first[i]; at < present_.first[i + 1]; ++at) {
      parts_.push_back(static_cast<double>(present_.ShareOf(commodities_[i], at)) /
                       static_cast<double>(kLoadUnit));
      hop_begin_.push_back(hops_.size());
      view_.AppendHops(commodities_[i].source, commodities_[i].destination, present_.paths[at],
                       hops_);
    }
  }

  std::span<const std::uint32_t> HopsOf(std::size_t part) const {
    const std::size_t end = part + 1 < hop_begin_.size() ? hop_begin_[part + 1] : hops_.size();
    return std::span(hops_).subspan(hop_begin_[part], end - hop_begin_[part]);
  }

  double Relative(std::uint32_t link) const {
    const auto capacity = static_cast<double>(view_.capacities()[link]);
    return capacity / static_cast<double>(view_.unit_bps());
  }
  double UseOf(std::uint32_t link) const {
    return view_.capacities()[link] > 0 ? loads_[link] / Relative(link) : 0;
  }
  double Greatest() const {
    double greatest = 0;
    for (const std::uint32_t link : hops_) greatest = std::max(greatest, UseOf(link));
    return greatest;
  }

  // What a little more load on the path costs, and how fast that grows; relative to `greatest`.
  struct Cost {
    double first = 0;
    double second = 0;
    double busiest = 0;
  };
  Cost CostOf(const Flow& flow, std::size_t part, double greatest) const {
    const auto count = static_cast<double>(flow.count);
    Cost cost{.first = kUneven * (parts_[part] * count - 1), .second = kUneven * count};
    for (const std::uint32_t link : HopsOf(part)) {
      const double use = UseOf(link);
      const double relative = use / greatest;
      const double steep = Power(relative, power_ - 2);
      cost.first += steep * relative / Relative(link);
      cost.second += steep * (power_ - 1) / (greatest * Relative(link) * Relative(link));
      cost.busiest = std::max(cost.busiest, use);
    }
    return cost;
  }
  static double Power(double base, int exponent) {
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base) {
      if (exponent % 2 == 1) result *= base;
    }
    return result;
  }

  void Sweep(std::int64_t& steps) {
    const double greatest = Greatest();
    if (greatest <= 0) return;
    for (Flow& flow : flows_) {
      steps -= static_cast<std::int64_t>(flow.count);
      if (steps < 0) return;
      Shift(flow, greatest);
    }
  }

  void Shift(Flow& flow, double greatest) {
    constexpr double kLeast = static_cast<double>(kLeastGrains) / static_cast<double>(kShareGrain);
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    std::size_t costliest = flow.first;
    std::size_t cheapest = flow.first;
    Cost most{.first = -kInfinite};
    Cost least{.first = kInfinite};
    double busiest = 0;
    for (std::size_t part = flow.first; part < flow.first + flow.count; ++part) {
      const Cost cost = CostOf(flow, part, greatest);
      busiest = std::max(busiest, cost.busiest);
      if (parts_[part] > kLeast && cost.first > most.first) {
        most = cost;
        costliest = part;
      }
      if (cost.first < least.first) {
        least = cost;
        cheapest = part;
      }
    }
    const double gap = most.first - least.first;
    if (busiest < kHot * greatest || most.first == -kInfinite || gap <= kLeastCostGap) return;
    double part = std::min(gap / (most.second + least.second), parts_[costliest] - kLeast);
    Move(costliest, cheapest, part);
    // The cheapest path's cost may grow faster than at first.
    for (int halvings = 0; halvings < 8; ++halvings) {
      if (CostOf(flow, cheapest, greatest).first <= CostOf(flow, costliest, greatest).first) break;
      part /= 2;
      Move(cheapest, costliest, part);
    }
    flow.has_changed = true;
  }

  void Move(std::size_t from, std::size_t to, double part) {
    parts_[from] -= part;
    parts_[to] += part;
    for (const std::uint32_t link : HopsOf(from)) loads_[link] -= part;
    for (const std::uint32_t link : HopsOf(to)) loads_[link] += part;
  }

  // Rounds to grains by the largest remainders.
  void Round(const Flow& flow, Assignment& result) const {
    const std::size_t first = result.first[flow.commodity];
    std::vector<std::pair<double, std::size_t>> remainders;
    std::int64_t left = kShareGrain;
    for (std::size_t i = 0; i < flow.count; ++i) {
      const double grains = parts_[flow.first + i] * static_cast<double>(kShareGrain);
      const auto whole =
          std::max<std::int64_t>(kLeastGrains, std::llround(std::floor(grains + 1e-6)));
      result.shares[first + i] = whole * kGrainUnits;
      left -= whole;
      remainders.emplace_back(static_cast<double>(whole) - grains, i);
    }
    std::ranges::sort(remainders);
    for (std::size_t next = 0; left > 0; next = (next + 1) % flow.count, --left) {
      result.shares[first + remainders[next].second] += kGrainUnits;
    }
    for (; left < 0; ++left) {  // where parts were lifted to the least
      *std::ranges::max_element(
          result.shares.begin() + static_cast<std::ptrdiff_t>(first),
          result.shares.begin() + static_cast<std::ptrdiff_t>(first + flow.count)) -= kGrainUnits;
    }
  }

  const FabricView& view_;
  std::span<const Commodity> commodities_;
  const Assignment& present_;
  int power_ = 8;
  std::vector<double> loads_;  // of directed links, in flows
  std::vector<Flow> flows_;    // that may be divided
  std::vector<double> parts_;  // of the flow, one flow after the other
  std::vector<std::size_t> hop_begin_;
  std::vector<std::uint32_t> hops_;
};

}  // namespace

Load MaxLoadWith(const FabricView& view, std::span<const Commodity> commodities,
                 std::span<const std::int64_t> base_loads, const Assignment& assignment) {
  std::vector<std::int64_t> loads = ComputeLoads(view, commodities, assignment);
  for (std::size_t link = 0; link < loads.size(); ++link) {
    if (!base_loads.empty()) loads[link] += base_loads[link];
    if (view.capacities()[link] == 0) loads[link] = 0;
  }
  return ComputeMaxLoad(view, loads);
}

Assignment BalanceShares(const FabricView& view, std::span<const Commodity> commodities,
                         std::span<const std::uint8_t> is_rigid,
                         std::span<const std::int64_t> base_loads, const Assignment& present,
                         std::int64_t most_steps) {
  Balance balance(view, commodities, is_rigid, base_loads, present);
  balance.Run(most_steps);
  Assignment balanced = balance.Rounded();
  balanced.max_load = MaxLoadWith(view, commodities, base_loads, balanced);
  return balanced;
}

}  // namespace espalier::controller
