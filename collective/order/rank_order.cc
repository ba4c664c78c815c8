#include "collective/order/rank_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace espalier::order {
namespace {

constexpr std::int64_t kMaxBoundWork = std::int64_t{1} << 22;  // ranks x pairs
constexpr std::int64_t kMaxTrials = std::int64_t{1} << 22;

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

// A network of the traffic, for flows from rank 0 to another one or back.
class Flow {
 public:
  explicit Flow(const RankTraffic& traffic) : arcs_of_(At(traffic.ranks)) {
    for (const RankTraffic::Amount& one : traffic.amounts) {
      Add(one.from, one.to, one.chunks);
      Add(one.to, one.from, 0);
    }
  }

  // The largest flow, or `enough` if it is more.
  std::int64_t Find(int from, int to, std::int64_t enough) {
    for (Arc& arc : arcs_) arc.left = arc.capacity;
    std::int64_t flow = 0;
    while (flow < enough) {
      const std::int64_t more = Augment(from, to);
      if (more == 0) break;
      flow += more;
    }
    return std::min(flow, enough);
  }

 private:
  struct Arc {
    int to = 0;
    std::int64_t capacity = 0;
    std::int64_t left = 0;
  };

  void Add(int from, int to, std::int64_t capacity) {
    arcs_of_[At(from)].push_back(static_cast<int>(arcs_.size()));
    arcs_.push_back({to, capacity, capacity});
  }

  // Along a shortest path; arcs come in pairs.
  std::int64_t Augment(int from, int to) {
    std::vector<int> reached_by(arcs_of_.size(), -1);
    std::vector<int> queue{from};
    for (std::size_t i = 0; i < queue.size() && reached_by[At(to)] < 0; ++i) {
      for (const int arc : arcs_of_[At(queue[i])]) {
        const int next = arcs_[At(arc)].to;
        if (arcs_[At(arc)].left == 0 || next == from || reached_by[At(next)] >= 0) continue;
        reached_by[At(next)] = arc;
        queue.push_back(next);
      }
    }
    if (reached_by[At(to)] < 0) return 0;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const auto walk = [&](const auto& visit) {
      for (int node = to; node != from; node = arcs_[At(reached_by[At(node)] ^ 1)].to) {
        visit(reached_by[At(node)]);
      }
    };
    walk([&](int arc) { most = std::min(most, arcs_[At(arc)].left); });
    walk([&](int arc) {
      arcs_[At(arc)].left -= most;
      arcs_[At(arc ^ 1)].left += most;
    });
    return most;
  }

  std::vector<Arc> arcs_;
  std::vector<std::vector<int>> arcs_of_;
};

// The least that leaves any set of ranks but all: every set has rank 0 inside or outside.
std::int64_t LeastOut(const RankTraffic& traffic) {
  if (traffic.ranks * static_cast<std::int64_t>(traffic.amounts.size()) > kMaxBoundWork) return 0;
  Flow flow(traffic);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int rank = 1; rank < traffic.ranks; ++rank) {
    least = flow.Find(0, rank, least);
    least = flow.Find(rank, 0, least);
  }
  return traffic.ranks < 2 ? 0 : least;
}

// What leaves the groups of a level at least. A group of one place has what a rank sends; if all
// groups are such, all traffic leaves them.
std::int64_t LeastAt(const RankTraffic& traffic, const Level& level, std::int64_t least_of_sets) {
  std::map<int, int> sizes;
  for (const int group : level.group_of) ++sizes[group];
  if (sizes.size() < 2) return 0;
  std::vector<std::int64_t> sent(At(traffic.ranks), 0);
  std::int64_t all = 0;
  for (const RankTraffic::Amount& one : traffic.amounts) {
    sent[At(one.from)] += one.chunks;
    all += one.chunks;
  }
  const auto singles =
      std::ranges::count_if(sizes, [](const auto& one) { return one.second == 1; });
  if (singles == traffic.ranks) return all;
  std::ranges::sort(sent);
  return std::accumulate(sent.begin(), sent.begin() + singles, std::int64_t{0}) +
         least_of_sets * (std::ssize(sizes) - singles);
}

class Search {
 public:
  Search(const RankTraffic& traffic, const std::vector<Level>& levels)
      : traffic_(traffic), levels_(levels), amounts_of_(At(traffic.ranks)) {
    for (std::size_t i = 0; i < traffic.amounts.size(); ++i) {
      amounts_of_[At(traffic.amounts[i].from)].push_back(i);
      amounts_of_[At(traffic.amounts[i].to)].push_back(i);
    }
  }

  std::vector<std::int64_t> CostOf(const std::vector<int>& place_of) const {
    std::vector<std::int64_t> cost;
    for (const Level& level : levels_) {
      std::int64_t& sum = cost.emplace_back(0);
      for (const RankTraffic::Amount& one : traffic_.amounts) {
        const int from = level.group_of[At(place_of[At(one.from)])];
        if (from != level.group_of[At(place_of[At(one.to)])]) sum += one.chunks;
      }
    }
    return cost;
  }

  // Exchanges two ranks as long as that helps, over all levels together.
  void Improve(std::vector<int>& place_of) const {
    std::int64_t trials = 0;
    for (bool helped = true; helped;) {
      helped = false;
      for (int a = 0; a < traffic_.ranks; ++a) {
        for (int b = a + 1; b < traffic_.ranks; ++b) {
          trials += 1 + static_cast<std::int64_t>(amounts_of_[At(a)].size());
          if (trials > kMaxTrials) return;
          const std::int64_t before = Around(a, b, place_of);
          std::swap(place_of[At(a)], place_of[At(b)]);
          if (Around(a, b, place_of) < before) {
            helped = true;
          } else {
            std::swap(place_of[At(a)], place_of[At(b)]);
          }
        }
      }
    }
  }

 private:
  // What the two ranks send and receive across levels; traffic between them counts twice, before
  // and after an exchange alike.
  std::int64_t Around(int a, int b, const std::vector<int>& place_of) const {
    std::int64_t sum = 0;
    for (const int rank : {a, b}) {
      for (const std::size_t i : amounts_of_[At(rank)]) {
        const RankTraffic::Amount& one = traffic_.amounts[i];
        for (const Level& level : levels_) {
          const int from = level.group_of[At(place_of[At(one.from)])];
          if (from != level.group_of[At(place_of[At(one.to)])]) sum += one.chunks;
        }
      }
    }
    return sum;
  }

  const RankTraffic& traffic_;
  const std::vector<Level>& levels_;
  std::vector<std::vector<std::size_t>> amounts_of_;
};

std::vector<int> SortedPlaces(int ranks, const std::vector<Level>& levels) {
  std::vector<int> places(At(ranks));
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, [&](int a, int b) {
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
      const int one = level->group_of[At(a)];
      const int other = level->group_of[At(b)];
      if (one != other) return one < other;
    }
    return false;
  });
  return places;
}

}  // namespace

RankTraffic MeasureTraffic(const program::Program& program) {
  RankTraffic traffic{.ranks = static_cast<int>(program.ranks.size()),
                      .all_chunks = program.collective.chunks,
                      .amounts = {}};
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> sums;
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    for (const program::ThreadBlock& block : program.ranks[rank].blocks) {
      for (const program::Step& step : block.steps) {
        if (!program::Sends(step.op)) continue;
        sums[{static_cast<std::int32_t>(rank), block.send_peer}] += step.count;
      }
    }
  }
  for (const auto& [pair, chunks] : sums) {
    traffic.amounts.push_back({pair.first, pair.second, chunks});
  }
  return traffic;
}

OrderAdvice AdviseOrder(const RankTraffic& traffic, const std::vector<Level>& levels) {
  for (const Level& level : levels) {
    ESPALIER_CHECK(level.group_of.size() == At(traffic.ranks), "places={} ranks={}",
                   level.group_of.size(), traffic.ranks);
  }
  const Search search(traffic, levels);
  OrderAdvice advice;
  std::vector<int> given(At(traffic.ranks));
  std::iota(given.begin(), given.end(), 0);
  advice.present = search.CostOf(given);
  const std::int64_t out = LeastOut(traffic);
  for (const Level& level : levels) advice.least.push_back(LeastAt(traffic, level, out));
  const auto sum = [](const std::vector<std::int64_t>& cost) {
    return std::accumulate(cost.begin(), cost.end(), std::int64_t{0});
  };
  for (std::vector<int> order : {given, SortedPlaces(traffic.ranks, levels)}) {
    if (sum(search.CostOf(order)) > sum(advice.least)) search.Improve(order);
    const auto cost = search.CostOf(order);
    if (!advice.best.empty() && sum(cost) >= sum(advice.best)) continue;
    advice.best = cost;
    advice.place_of = std::move(order);
  }
  advice.is_optimal = advice.best == advice.least;
  return advice;
}

}  // namespace espalier::order
