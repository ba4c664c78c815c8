#include "collective/synthesis/schedules/bfb.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "collective/forest/flow/parent_flow.h"

namespace espalier::synthesis {
namespace {

using forest::ParentFlow;
using forest::Rational;

constexpr int kMaxLinks = 64;        // into a node
constexpr int kMaxSubsetLinks = 10;  // above, a flow is faster than all subsets of links

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

Result<void> CheckInput(const Digraph& graph) {
  if (graph.node_count() < 2) {
    return Fail(ErrorCode::kFailedPrecondition, "a schedule needs at least two nodes");
  }
  for (std::int32_t node = 0; node < graph.node_count(); ++node) {
    const auto [begin, end] = graph.Into(node);
    if (end - begin <= kMaxLinks) continue;
    return Fail(ErrorCode::kUnsupported,
                fmt::format("node {} has links from {} nodes (at most {} are supported)", node,
                            end - begin, kMaxLinks));
  }
  return CheckConnected(graph);
}

tl::unexpected<Error> TooExact() {
  return Fail(ErrorCode::kResourceExhausted,
              "the exact cost exceeds 127 bits (round the bandwidths)");
}

tl::unexpected<Error> TooManySends() {
  return Fail(ErrorCode::kResourceExhausted,
              fmt::format("the schedule has more than {} sends (choose fewer nodes or --chunks)",
                          kMaxSends));
}

// Nodes at the same distance whose shards may come over the same links.
struct JobGroup {
  std::int32_t step = 1;
  std::uint64_t links = 0;  // bit i: the i-th arc into the node
  std::int32_t begin = 0;   // into Jobs::sources
  std::int32_t end = 0;
};

// What one node receives, by step and links.
struct Jobs {
  std::vector<std::int32_t> sources;
  std::vector<JobGroup> groups;
  std::vector<std::int64_t> capacity;  // of the arcs into the node
};

// Groups the nodes by what the distances to a node and to its in-neighbours allow. One object
// serves many nodes.
class JobFinder {
 public:
  explicit JobFinder(const Digraph& graph) : graph_(graph) {}

  // `distances(w)` are the distances to node w.
  template <typename Distances>
  const Jobs& Find(std::int32_t node, Distances& distances) {
    const auto [begin, end] = graph_.Into(node);
    const std::span<const std::uint16_t> own = distances(node);
    keys_.assign(own.size(), {0, 0});
    for (std::size_t v = 0; v < own.size(); ++v) keys_[v].step = own[v];
    jobs_.capacity.clear();
    for (std::int32_t a = begin; a < end; ++a) {
      const Arc& arc = graph_.arcs()[At(a)];
      jobs_.capacity.push_back(arc.capacity);
      const std::span<const std::uint16_t> from = distances(arc.tail);
      const std::uint64_t bit = std::uint64_t{1} << (a - begin);
      for (std::size_t v = 0; v < own.size(); ++v) {
        if (from[v] + 1 == own[v]) keys_[v].links |= bit;
      }
    }
    Group(node);
    return jobs_;
  }

 private:
  struct Key {
    std::uint64_t links = 0;
    std::uint32_t step = 0;
    bool operator==(const Key&) const = default;
  };

  void Group(std::int32_t node) {
    jobs_.sources.clear();
    for (std::int32_t v = 0; v < graph_.node_count(); ++v) {
      if (v != node) jobs_.sources.push_back(v);
    }
    const auto key = [&](std::int32_t v) {
      return std::tuple(keys_[At(v)].step, keys_[At(v)].links, v);
    };
    std::sort(jobs_.sources.begin(), jobs_.sources.end(),
              [&](std::int32_t x, std::int32_t y) { return key(x) < key(y); });
    jobs_.groups.clear();
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(jobs_.sources.size()); ++i) {
      const Key& of = keys_[At(jobs_.sources[At(i)])];
      if (jobs_.groups.empty() || keys_[At(jobs_.sources[At(i - 1)])] != of) {
        jobs_.groups.push_back({static_cast<std::int32_t>(of.step), of.links, i, i});
      }
      ++jobs_.groups.back().end;
    }
  }

  const Digraph& graph_;
  std::vector<Key> keys_;  // by node
  Jobs jobs_;
};

// Returns the groups of one step from `at` on.
std::span<const JobGroup> StepGroups(std::span<const JobGroup> groups, std::size_t at) {
  std::size_t end = at;
  while (end < groups.size() && groups[end].step == groups[at].step) ++end;
  return groups.subspan(at, end - at);
}

// Computes U(u, t). One object serves many problems.
class LeastLoad {
 public:
  Rational Compute(std::span<const JobGroup> groups, std::span<const std::int64_t> capacity) {
    return capacity.size() <= kMaxSubsetLinks ? BySubsets(groups, capacity)
                                              : ByFlows(groups, capacity);
  }

 private:
  // Sums the jobs over all subsets of every set of links (a zeta transform).
  Rational BySubsets(std::span<const JobGroup> groups, std::span<const std::int64_t> capacity) {
    const std::size_t sets = std::size_t{1} << capacity.size();
    jobs_.assign(sets, 0);
    for (const JobGroup& group : groups) jobs_[group.links] = group.end - group.begin;
    for (std::size_t link = 0; link < capacity.size(); ++link) {
      const std::size_t bit = std::size_t{1} << link;
      for (std::size_t set = 0; set < sets; ++set) {
        if ((set & bit) != 0) jobs_[set] += jobs_[set ^ bit];
      }
    }
    sum_.assign(sets, 0);
    std::int64_t most = 0;
    std::int64_t of = 1;
    for (std::size_t set = 1; set < sets; ++set) {
      sum_[set] = sum_[set & (set - 1)] + capacity[At(std::countr_zero(set))];
      if (forest::Int128{jobs_[set]} * of > forest::Int128{most} * sum_[set]) {
        most = jobs_[set];
        of = sum_[set];
      }
    }
    return {most, of};
  }

  // Raises the load until a flow places all jobs. A load that is too small leaves a set of links
  // that blocks, and whose own ratio is the next load (discrete Newton).
  Rational ByFlows(std::span<const JobGroup> groups, std::span<const std::int64_t> capacity) {
    std::uint64_t set = ~std::uint64_t{0};
    while (true) {
      std::int64_t jobs = 0;
      std::int64_t room = 0;
      for (const JobGroup& group : groups) {
        if ((group.links & ~set) == 0) jobs += group.end - group.begin;
      }
      for (std::size_t link = 0; link < capacity.size(); ++link) {
        if ((set >> link & 1) != 0) room += capacity[link];
      }
      const std::int64_t common = std::gcd(jobs, room);
      units_.clear();
      for (const JobGroup& group : groups) {
        units_.push_back({group.links, (group.end - group.begin) * (room / common)});
      }
      sum_.assign(capacity.begin(), capacity.end());
      for (std::int64_t& limit : sum_) limit *= jobs / common;
      if (flow_.Solve(units_, sum_)) return {jobs, room};
      set = flow_.blocked();
    }
  }

  std::vector<std::int64_t> jobs_;
  std::vector<std::int64_t> sum_;
  std::vector<ParentFlow::Group> units_;
  ParentFlow flow_;
};

// The distances to nodes, each computed when it is first needed.
class DistanceTable {
 public:
  explicit DistanceTable(const Digraph& graph) : graph_(graph), hops_(At(graph.node_count())) {}
  std::span<const std::uint16_t> operator()(std::int32_t to) {
    std::vector<std::uint16_t>& row = hops_[At(to)];
    if (row.empty()) {
      row.resize(hops_.size());
      graph_.DistancesTo(to, row);
    }
    return row;
  }

 private:
  const Digraph& graph_;
  std::vector<std::vector<std::uint16_t>> hops_;
};

// Returns how many nodes stand for all: with translations, node 0 alone.
std::int32_t CountViews(const Digraph& graph, const std::optional<Translations>& translations) {
  return translations ? 1 : graph.node_count();
}

void RaiseLoads(const Jobs& jobs, LeastLoad& least, std::vector<Rational>& loads) {
  for (std::size_t at = 0; at < jobs.groups.size();) {
    const auto groups = StepGroups(jobs.groups, at);
    const std::size_t step = At(groups.front().step) - 1;
    if (loads.size() <= step) loads.resize(step + 1);
    loads[step] = std::max(loads[step], least.Compute(groups, jobs.capacity));
    at += groups.size();
  }
}

// Returns the load of every step.
std::vector<Rational> ComputeLoads(const Digraph& graph,
                                   const std::optional<Translations>& translations) {
  DistanceTable distances(graph);
  JobFinder finder(graph);
  LeastLoad least;
  std::vector<Rational> loads;
  for (std::int32_t node = 0; node < CountViews(graph, translations); ++node) {
    RaiseLoads(finder.Find(node, distances), least, loads);
  }
  return loads;
}

Result<BfbCost> Summarise(const Digraph& graph, std::vector<Rational> loads) {
  BfbCost cost{static_cast<std::int32_t>(loads.size()), {}, std::move(loads)};
  std::optional<Rational> sum = Rational();
  for (const Rational& load : cost.step_loads) {
    if (sum) sum = Rational::Sum(*sum, load);
  }
  if (sum) sum = Rational::Product(*sum, Rational(graph.degree(), graph.node_count()));
  if (!sum) return TooExact();
  cost.t_b = *sum;
  return cost;
}

// Returns the number of chunks with which every step attains its load.
Result<std::int64_t> NeededChunks(const BfbCost& cost) {
  forest::Int128 chunks = 1;
  for (const Rational& load : cost.step_loads) {
    chunks =
        chunks / forest::GreatestCommonDivisor(chunks, load.denominator()) * load.denominator();
    if (chunks > kMaxChunks) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the best schedule needs more than {} chunks a shard (give --chunks)",
                              kMaxChunks));
    }
  }
  return static_cast<std::int64_t>(chunks);
}

// Places the shards that nodes receive on links and writes the sends.
class SendWriter {
 public:
  SendWriter(const Digraph& graph, Schedule& schedule) : graph_(graph), schedule_(schedule) {}

  // Places one step of one node with at most `load` (chunks per capacity) on each link. Returns
  // false if that is impossible.
  bool Place(const Jobs& jobs, std::span<const JobGroup> groups, const Rational& load) {
    groups_.clear();
    for (const JobGroup& group : groups) {
      groups_.push_back({group.links, (group.end - group.begin) * schedule_.chunks});
    }
    limits_.clear();
    for (const std::int64_t capacity : jobs.capacity) {
      const auto limit = forest::Int128{capacity} * load.numerator() / load.denominator();
      limits_.push_back(
          static_cast<std::int64_t>(std::min<forest::Int128>(limit, forest::Int128{1} << 60)));
    }
    return flow_.Solve(groups_, limits_);
  }

  // Writes what Place has placed. The shards of a group lie one after the other on a line, which is
  // cut into the parts that the links carry.
  void Write(std::int32_t node, const Jobs& jobs, std::span<const JobGroup> groups) {
    const std::int32_t first_arc = graph_.Into(node).first;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::int64_t at = 0;
      for (std::size_t link = 0; link < jobs.capacity.size(); ++link) {
        const std::int32_t from = graph_.arcs()[At(first_arc) + link].tail;
        const std::int64_t end = at + flow_.Units(g, link);
        while (at < end) {
          const std::int64_t shard = at / schedule_.chunks;
          const std::int64_t part_end = std::min(end, (shard + 1) * schedule_.chunks);
          schedule_.sends.push_back(
              {.source = jobs.sources[At(groups[g].begin + shard)],
               .from = from,
               .to = node,
               .step = groups[g].step,
               .begin = static_cast<std::int32_t>(at - shard * schedule_.chunks),
               .end = static_cast<std::int32_t>(part_end - shard * schedule_.chunks)});
          at = part_end;
        }
      }
    }
  }

 private:
  const Digraph& graph_;
  Schedule& schedule_;
  std::vector<ParentFlow::Group> groups_;
  std::vector<std::int64_t> limits_;
  ParentFlow flow_;
};

bool FitsAfter(const Schedule& schedule, const std::optional<Translations>& translations) {
  return static_cast<std::int64_t>(schedule.sends.size()) <=
         kMaxSends / (translations ? schedule.node_count : 1);
}

// Adds what the other nodes receive to what node 0 receives.
void Translate(const Translations& translations, Schedule& schedule) {
  const std::size_t count = schedule.sends.size();
  schedule.sends.reserve(count * At(schedule.node_count));
  for (std::int32_t by = 1; by < schedule.node_count; ++by) {
    for (std::size_t i = 0; i < count; ++i) {
      Send send = schedule.sends[i];
      send.source = translations.Move(send.source, by);
      send.from = translations.Move(send.from, by);
      send.to = translations.Move(send.to, by);
      schedule.sends.push_back(send);
    }
  }
}

// Returns the next load above `load` at which some link may carry one chunk more.
Rational NextLoad(std::span<const std::int64_t> capacity, const Rational& load) {
  std::optional<Rational> next;
  for (const std::int64_t one : capacity) {
    const Rational more(forest::Int128{one} * load.numerator() / load.denominator() + 1, one);
    if (!next || more < *next) next = more;
  }
  return *next;
}

}  // namespace

Result<BfbCost> ComputeBfbCost(const Digraph& graph) {
  if (auto ok = CheckInput(graph); !ok) return Propagate(ok);
  return Summarise(graph, ComputeLoads(graph, Translations::Find(graph)));
}

Result<Schedule> MakeBfbAllgather(const Digraph& graph, std::int64_t chunks) {
  if (auto ok = CheckInput(graph); !ok) return Propagate(ok);
  if (std::int64_t{graph.node_count()} * (graph.node_count() - 1) > kMaxSends) {
    return TooManySends();
  }
  const std::optional<Translations> translations = Translations::Find(graph);
  auto cost = Summarise(graph, ComputeLoads(graph, translations));
  if (!cost) return Propagate(cost);
  if (chunks == 0) {
    auto needed = NeededChunks(*cost);
    if (!needed) return Propagate(needed);
    chunks = *needed;
  }
  Schedule schedule{.collective = Collective::kAllgather,
                    .node_count = graph.node_count(),
                    .chunks = 1,
                    .steps = cost->steps,
                    .reduce_steps = 0,
                    .sends = {}};
  auto refined = Refine(std::move(schedule), chunks);
  if (!refined) return refined;
  std::vector<Rational> limits;  // by step, in chunks per capacity
  for (const Rational& load : cost->step_loads) {
    const auto limit = Rational::Product(load, Rational(chunks, 1));
    if (!limit) return TooExact();
    limits.push_back(*limit);
  }
  DistanceTable distances(graph);
  JobFinder finder(graph);
  SendWriter writer(graph, *refined);
  for (std::int32_t node = 0; node < CountViews(graph, translations); ++node) {
    const Jobs& jobs = finder.Find(node, distances);
    for (std::size_t at = 0; at < jobs.groups.size();) {
      const auto groups = StepGroups(jobs.groups, at);
      Rational& limit = limits[At(groups.front().step) - 1];
      // Rounding down loses less than one chunk a link, so few raises suffice.
      while (!writer.Place(jobs, groups, limit)) limit = NextLoad(jobs.capacity, limit);
      writer.Write(node, jobs, groups);
      at += groups.size();
    }
    if (!FitsAfter(*refined, translations)) return TooManySends();
  }
  if (translations) Translate(*translations, *refined);
  return refined;
}

Result<Schedule> MakeBfbSchedule(const Digraph& graph, Collective collective, std::int64_t chunks) {
  if (collective == Collective::kAllgather) return MakeBfbAllgather(graph, chunks);
  if (auto served = CheckCollective(collective); !served) return Propagate(served);
  auto reversed = MakeBfbAllgather(graph.Transpose(), chunks);
  if (!reversed) return reversed;
  Schedule reduce_scatter = Reverse(std::move(*reversed));
  if (collective == Collective::kReduceScatter) return reduce_scatter;
  auto allgather = MakeBfbAllgather(graph, chunks);
  if (!allgather) return allgather;
  return Concatenate(std::move(reduce_scatter), std::move(*allgather));
}

}  // namespace espalier::synthesis
