// Measures assignments of paths on fabrics of two, three and four tiers.
//
// Prints five tables. The first has fabrics of several tiers: the colouring alone
// (graph::LaminarColoring), Assigner::Optimal as a whole, greedy assignment (Algorithm 1 over the
// same structure), and the loads of each tier, recounted from the paths. The second has fat-trees
// with dead switches and links, the third single flows that start on busy fat-trees
// (OnlineAssigner), the fourth flows of several subflows over a number of spines that does not
// divide them, in equal and unequal parts (UnevenPaths). The last compares, on two tiers,
// Assigner::Optimal as a whole with the bare loop of greedy on flat arrays (FlatGreedy) and with
// Assigner::Greedy as a whole. All run on one thread and alternate within one run, so that ratios
// hold on a noisy machine, too. Every result is verified. usage: clos_bench
// [tiers|damage|starts|shares|two]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/builders.h"
#include "controller/routing/assigner.h"
#include "controller/routing/bounds/tier_loads.h"
#include "controller/routing/online/online_assigner.h"
#include "tests/bench/clos_fabrics.h"
#include "tests/bench/clos_shares.h"
#include "tests/bench/flat_greedy.h"
#include "tests/common/fabric/clos_shape.h"

namespace {

namespace fabric = espalier::fabric;
namespace graph = espalier::graph;
using espalier::bench::Fabric;
using espalier::bench::Flows;
using espalier::bench::Permutations;
using espalier::bench::RepetitionsFor;
using espalier::bench::Sorted;
using espalier::bench::Times;
using espalier::controller::Assigner;
using espalier::controller::Assignment;
using espalier::controller::AssignOptions;
using espalier::controller::Commodity;
using espalier::controller::FabricView;
using espalier::controller::Load;
using espalier::controller::OnlineAssigner;
using espalier::controller::ProofText;
using espalier::controller::SubflowId;

constexpr AssignOptions kAssignOnly{.step_budget = 0};

Flows RandomDestinations(std::uint32_t leaves, std::uint32_t hosts, int count) {
  std::mt19937 random(leaves + hosts);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t i = 0; i < leaves * hosts; ++i) {
    for (int flow = 0; flow < count; ++flow) {
      pairs.emplace_back(i, static_cast<std::uint32_t>(random() % (leaves * hosts)));
    }
  }
  return Sorted(std::move(pairs), hosts);
}

// Random rings of this length.
Flows Rings(std::uint32_t leaves, std::uint32_t hosts, std::uint32_t length) {
  std::mt19937 random(leaves * 7 + hosts);
  std::vector<std::uint32_t> all(std::size_t{leaves} * hosts);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  std::ranges::shuffle(all, random);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t ring = i / length * length;
    const std::size_t size = std::min<std::size_t>(length, all.size() - ring);
    pairs.emplace_back(all[i], all[ring + (i + 1 - ring) % size]);
  }
  return Sorted(std::move(pairs), hosts);
}

// As StagedPaths gives it to the colouring, for a fabric of one part whose links are all up.
class BareColoring {
 public:
  BareColoring(const FabricView& view, const Flows& flows) {
    const fabric::FoldedClos& clos = *view.folded_clos();
    const std::uint32_t height = clos.tiers - 1;
    block_of_.resize(height);
    above_.resize(height);
    for (std::uint32_t tier = 0; tier < height; ++tier) {
      std::uint32_t blocks = 0;
      for (std::uint32_t leaf = 0; leaf < clos.leaves; ++leaf) {
        const std::uint32_t number = clos.blocks[clos.Ancestor(leaf, tier)].number;
        blocks = std::max(blocks, number + 1);
        if (tier > 0) block_of_[tier].push_back(number);
      }
      const auto& above = clos.blocks[clos.Ancestor(0, tier + 1)];
      for (std::uint32_t top = 0; top <= above.labels / above.width; ++top) {
        above_[tier].push_back(top * above.width);
      }
      tiers_.push_back(
          {.block_of = block_of_[tier], .blocks = blocks, .first_above = above_[tier]});
    }
    for (const Commodity& flow : flows) edges_.push_back({flow.source, flow.destination});
  }
  void Run() { coloring_.Color(edges_, tiers_); }

 private:
  graph::LaminarColoring coloring_;
  std::vector<std::vector<std::uint32_t>> block_of_;
  std::vector<std::vector<std::uint32_t>> above_;
  std::vector<graph::LaminarTier> tiers_;
  std::vector<graph::BipartiteEdge> edges_;
};

std::string LoadsText(const std::vector<Load>& loads) {
  std::string text;
  for (const Load& load : loads) text += (text.empty() ? "" : " ") + load.ToString();
  return text;
}

void MeasureTiers(std::string_view name, Fabric& on, const Flows& flows) {
  Assigner assigner(on.view);
  Assigner greedy(on.view);
  BareColoring bare(on.view, flows);
  Times bare_times;
  Times times;
  Times greedy_times;
  const int repetitions = RepetitionsFor(flows.size());
  for (int i = 0; i < repetitions; ++i) {
    bare_times.Measure([&] { bare.Run(); });
    times.Measure([&] { assigner.Optimal(flows, kAssignOnly); });
    if (i == 0) greedy_times.Measure([&] { greedy.Greedy(flows); });
  }
  const Assignment& result = assigner.Optimal(flows, kAssignOnly);
  const auto loads = espalier::controller::ComputeTierLoads(on.view, flows, result);
  const auto bounds = espalier::controller::ComputeTierBounds(on.view, flows);
  if (std::ranges::max(loads) != result.max_load || result.lower_bound < bounds.fabric) {
    fmt::print("{}: THE LOADS ARE NOT THOSE OF THE PATHS\n", name);
    std::exit(1);
  }
  fmt::print(
      "{:42} {:6} | {:8.1f} {:8.1f} | {:8.1f} {:8.1f} | {:9.0f} | {:8} {:8} {:8} | {}\n", name,
      flows.size(), bare_times.Minimum(), bare_times.Median(), times.Minimum(), times.Median(),
      greedy_times.Minimum(), LoadsText(loads), LoadsText(bounds.tiers),
      LoadsText(espalier::controller::ComputeTierLoads(on.view, flows, greedy.Greedy(flows))),
      ProofText(result.proof));
}

void MeasureAllTiers() {
  fmt::print("{:42} {:>6} | {:>17} | {:>17} | {:>9} | {:8} {:8} {:8} | {}\n", "by tier (us)",
             "flows", "colouring min med", "Optimal min med", "greedy", "loads", "bounds", "greedy",
             "proof");
  for (const int k : {16, 24, 32, 48, 64}) {
    const auto half = static_cast<std::uint32_t>(k) / 2;
    const std::uint32_t leaves = 2 * half * half;
    Fabric tree(fabric::ClosShape{.children = {k / 2, k}, .widths = {k / 2, k / 2}}.Build());
    const std::string name = "fat-tree k=" + std::to_string(k);
    MeasureTiers(name + ", permutation", tree, Permutations(leaves, half, 1));
    if (k != 16 && k != 32 && k != 64) continue;
    MeasureTiers(name + ", rings of 16", tree, Rings(leaves, half, 16));
    if (k == 64) continue;
    MeasureTiers(name + ", 4 flows a host", tree, Permutations(leaves, half, 4));
    MeasureTiers(name + ", 4 random destinations", tree, RandomDestinations(leaves, half, 4));
  }
  Fabric narrow(fabric::ClosShape{.children = {16, 16}, .widths = {16, 8}}.Build());
  MeasureTiers("2:1, 16 pods, between pods", narrow, Permutations(256, 16, 1, 256));
  MeasureTiers("2:1, 16 pods, 8 flows a host, between pods", narrow, Permutations(256, 16, 8, 256));
  MeasureTiers("2:1, 16 pods, permutation (some within)", narrow, Permutations(256, 16, 1));
  Fabric four(fabric::ClosShape{.children = {8, 8, 16}, .widths = {8, 8, 8}}.Build());
  MeasureTiers("4 tiers, 8,192 hosts, permutation", four, Permutations(1'024, 8, 1));
  Fabric large(fabric::ClosShape{.children = {16, 16, 16}, .widths = {16, 16, 16}}.Build());
  MeasureTiers("4 tiers, 65,536 hosts, permutation", large, Permutations(4'096, 16, 1));
}

enum class Damage { kAggregation, kCore, kOnePercent };

void Kill(Fabric& on, Damage damage, std::uint32_t seed) {
  std::mt19937 random(seed);
  const fabric::FoldedClos& clos = *on.view.folded_clos();
  const auto& pod = clos.blocks[clos.Ancestor(0, 1)];
  const fabric::NodeId dead =
      damage == Damage::kCore ? clos.tops[clos.blocks.back().first_top] : clos.tops[pod.first_top];
  for (std::size_t i = 0; i < on.topology.links().size(); ++i) {
    const fabric::LinkId id(static_cast<std::int32_t>(i));
    const fabric::Link& link = on.topology.link(id);
    const bool is_hit =
        damage == Damage::kOnePercent ? random() % 100 == 0 : link.a == dead || link.b == dead;
    if (on.topology.IsSwitchToSwitch(id) && is_hit) {
      on.topology.SetLinkState(id, fabric::LinkState::kDown);
    }
  }
  on.view.Refresh();
}

// Only as many flows as the usable links of their ends allow with one flow each, and of these this
// part.
Flows ThoseThatFit(const Fabric& on, const Flows& flows, double part) {
  const fabric::FoldedClos& clos = *on.view.folded_clos();
  std::mt19937 random(6);
  Flows kept;
  std::vector<std::int64_t> room[2];
  for (const bool sends : {true, false}) {
    for (const auto& block : clos.blocks) {
      std::int64_t links = 0;
      for (std::uint32_t label = 0;
           block.parent != fabric::FoldedClos::kNone && label < clos.blocks[block.parent].labels;
           ++label) {
        const auto link = sends ? clos.UpLink(block, label) : clos.DownLink(block, label);
        links += on.view.capacities()[link] > 0 ? 1 : 0;
      }
      room[sends ? 0 : 1].push_back(links);
    }
  }
  for (const Commodity& flow : flows) {
    const std::uint32_t common = clos.CommonBlock(flow.source, flow.destination);
    bool fits = static_cast<double>(random() % 10'000) < part * 10'000;
    for (std::uint32_t tier = 0; tier < clos.blocks[common].tier; ++tier) {
      fits = fits && room[0][clos.Ancestor(flow.source, tier)] > 0 &&
             room[1][clos.Ancestor(flow.destination, tier)] > 0;
    }
    if (!fits) continue;
    for (std::uint32_t tier = 0; tier < clos.blocks[common].tier; ++tier) {
      --room[0][clos.Ancestor(flow.source, tier)];
      --room[1][clos.Ancestor(flow.destination, tier)];
    }
    kept.push_back(flow);
  }
  return kept;
}

void MeasureDamageOf(int k, Damage damage, std::uint32_t seed) {
  const auto half = static_cast<std::uint32_t>(k) / 2;
  const Flows all = Permutations(2 * half * half, half, 1);
  Fabric tree(fabric::ClosShape{.children = {k / 2, k}, .widths = {k / 2, k / 2}}.Build());
  Kill(tree, damage, seed);
  for (const double part : {2.0, 1.0, 0.95}) {
    const Flows flows = part > 1 ? all : ThoseThatFit(tree, all, part);
    Assigner assigner(tree.view);
    Times times;
    for (int i = 0; i < 7; ++i) times.Measure([&] { assigner.Optimal(flows); });
    const Assignment& result = assigner.Optimal(flows);
    const char* const names[] = {"dead aggregation switch", "dead core", "1 % dead links"};
    const std::string name =
        fmt::format("k={}, {} ({}), {}", k, names[static_cast<int>(damage)], seed,
                    part > 1    ? "all"
                    : part == 1 ? "all that fit"
                                : "95 % of those");
    fmt::print(
        "{:42} {:6} | {:10.1f} {:10.1f} | {:8} {:6} {:8}\n", name, flows.size(), times.Minimum(),
        times.Median(), LoadsText(espalier::controller::ComputeTierLoads(tree.view, flows, result)),
        result.lower_bound.ToString(), Assigner(tree.view).Greedy(flows).max_load.ToString());
  }
}

void MeasureDamage() {
  fmt::print("\n{:42} {:>6} | {:>21} | {:8} {:6} {:8}\n", "with dead links (us) (seed)", "flows",
             "Optimal min med", "loads", "bound", "greedy");
  for (const int k : {16, 32}) {
    MeasureDamageOf(k, Damage::kAggregation, 0);
    MeasureDamageOf(k, Damage::kCore, 0);
    // Which links are dead makes a difference.
    for (std::uint32_t seed = 1; seed <= 9; ++seed) MeasureDamageOf(k, Damage::kOnePercent, seed);
  }
}

// One flow ends and another starts, between hosts that are free, on a fabric this busy.
class Churn {
 public:
  Churn(Fabric& on, std::uint32_t hosts_per_leaf, std::uint32_t hosts, int percent)
      : hosts_per_leaf_(hosts_per_leaf),
        hosts_(hosts),
        busy_(hosts * static_cast<std::uint32_t>(percent) / 100),
        random_(200 * hosts_per_leaf + static_cast<std::uint32_t>(percent)),
        assigner_(on.view),
        subflows_(hosts) {
    ESPALIER_CHECK(busy_ > 0 && busy_ < hosts, "hosts={} percent={}", hosts, percent);
    for (std::uint32_t i = 0; i < hosts; ++i) senders_.push_back(i);
    receivers_ = senders_;
    std::ranges::shuffle(senders_, random_);
    std::ranges::shuffle(receivers_, random_);
    for (std::uint32_t place = 0; place < busy_; ++place) Start(place);
  }

  // Returns the subflow that has started; none within a leaf.
  std::optional<SubflowId> Next() {
    const auto place = static_cast<std::uint32_t>(random_() % busy_);
    if (subflows_[place]) assigner_.Remove(*subflows_[place]);
    std::swap(senders_[place], senders_[busy_ + random_() % (hosts_ - busy_)]);
    std::swap(receivers_[place], receivers_[busy_ + random_() % (hosts_ - busy_)]);
    const auto begin = std::chrono::steady_clock::now();
    const std::size_t moved = Start(place);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (!subflows_[place]) return std::nullopt;
    times_.push_back(took.count());
    moves_.push_back(moved - 1);
    return subflows_[place];
  }
  const OnlineAssigner& assigner() const { return assigner_; }
  Flows Commodities() const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::uint32_t place = 0; place < busy_; ++place) {
      pairs.emplace_back(senders_[place], receivers_[place]);
    }
    return Sorted(std::move(pairs), hosts_per_leaf_);
  }

  // `part`: of the starts, those to tell of in the last column.
  void Print(const std::string& name, int part) {
    std::ranges::sort(times_);
    std::ranges::sort(moves_);
    const auto at = [](const auto& sorted, double quantile) {
      return sorted[static_cast<std::size_t>(quantile * static_cast<double>(sorted.size() - 1))];
    };
    double sum = 0;
    for (const std::size_t count : moves_) sum += static_cast<double>(count);
    const auto starts = static_cast<double>(moves_.size());
    fmt::print("{:35} {:6} | {:8.2f} {:8.2f} | {:6.2f} {:5} {:5} | {:.3f}\n", name, busy_,
               at(times_, 0.5), at(times_, 0.99), sum / starts, at(moves_, 0.5), at(moves_, 0.99),
               static_cast<double>(part) / starts);
  }

 private:
  std::size_t Start(std::uint32_t place) {
    const std::uint32_t from = senders_[place] / hosts_per_leaf_;
    const std::uint32_t to = receivers_[place] / hosts_per_leaf_;
    subflows_[place].reset();
    if (from == to) return 0;
    const SubflowId added = assigner_.Add(from, to);
    subflows_[place] = added;
    return assigner_.PlaceArrivals({&added, 1}, {.max_moves = hosts_}).size();
  }

  const std::uint32_t hosts_per_leaf_;
  const std::uint32_t hosts_;
  const std::uint32_t busy_;  // the first ones send to receivers at their places
  std::mt19937 random_;
  OnlineAssigner assigner_;
  std::vector<std::optional<SubflowId>> subflows_;
  std::vector<std::uint32_t> senders_;
  std::vector<std::uint32_t> receivers_;
  std::vector<double> times_;
  std::vector<std::size_t> moves_;
};

// On a fat-tree. `cold`: all links are read between two starts, as by other work of a controller.
void MeasureStarts(Fabric& on, int k, int percent, bool cold) {
  const auto half = static_cast<std::uint32_t>(k) / 2;
  Churn churn(on, half, 2 * half * half * half, percent);
  int shared = 0;  // starts of flows that share a link, or (cold) after which any do
  const std::int64_t one = espalier::controller::kLoadUnit;
  for (int round = 0; round < 3'000; ++round) {
    const auto started = churn.Next();
    if (!started) continue;
    if (cold ? std::ranges::max(churn.assigner().Loads()) > one
             : !churn.assigner().IsWithinLimits(*started)) {
      ++shared;
    }
  }
  if (shared == 0 && std::ranges::max(churn.assigner().Loads()) > one) {
    fmt::print("NOT THE LOAD THAT THE LIMITS SAY\n");
    std::exit(1);
  }
  churn.Print(fmt::format("k={}, {} % busy{}", k, percent, cold ? ", links not in cache" : ""),
              shared);
}

// Pods send and receive over half as many links as their leaves do. A recomputation, whose load no
// assignment is below, is the judge of every tenth start.
void MeasureNarrowStarts(int k, int percent) {
  const auto half = static_cast<std::uint32_t>(k) / 2;
  Fabric on(fabric::ClosShape{.children = {k / 2, k}, .widths = {k / 2, k / 4}}.Build());
  Churn churn(on, half, 2 * half * half * half, percent);
  Assigner judge(on.view);
  int above = 0;
  for (int round = 0; round < 3'000; ++round) {
    if (!churn.Next() || round % 10 != 0) continue;
    const Load load = espalier::controller::ComputeMaxLoad(on.view, churn.assigner().Loads());
    if (load > judge.Optimal(churn.Commodities()).lower_bound) above += 10;
  }
  churn.Print(fmt::format("k={}, pods 2:1, {} % busy", k, percent), above);
}

void MeasureAllStarts() {
  fmt::print("\n{:35} {:>6} | {:>17} | {:>18} | {}\n", "starts of one flow (us)", "flows",
             "p50 p99", "moves mean p50 p99", "above load 1 (2:1: the bound)");
  for (const int k : {16, 32}) {
    Fabric tree(fabric::ClosShape{.children = {k / 2, k}, .widths = {k / 2, k / 2}}.Build());
    for (const int percent : {90, 98}) {
      for (const bool cold : {false, true}) MeasureStarts(tree, k, percent, cold);
    }
  }
  for (const int percent : {90, 98}) MeasureNarrowStarts(16, percent);
}

void MeasureTwoTiers() {
  fmt::print("\n{:>7} {:>5} {:>4} | {:>17} | {:>17} | {:>17} | {:>17} | {}\n", "flows", "leaf",
             "spin", "coloring min med", "Optimal min med", "FlatGreedy min med", "Greedy min med",
             "Optimal / FlatGreedy, / Greedy");
  struct Size {
    int leaves;
    std::uint32_t hosts;
    int spines;
  };
  for (const Size size : {Size{64, 32, 32}, Size{256, 32, 32}, Size{512, 64, 64},
                          Size{1'024, 64, 64}, Size{1'024, 128, 128}, Size{1'024, 128, 64}}) {
    Fabric on(*fabric::BuildLeafSpine(
        {.spines = size.spines, .leaves = size.leaves, .hosts_per_leaf = 1}));
    const auto leaves = static_cast<std::uint32_t>(size.leaves);
    const auto spines = static_cast<std::uint32_t>(size.spines);
    const Flows flows = Permutations(leaves, size.hosts, 1, size.hosts);
    std::vector<graph::BipartiteEdge> edges;
    for (const Commodity& flow : flows) edges.push_back({flow.source, flow.destination});
    Assigner assigner(on.view);
    Assigner greedy(on.view);
    graph::EdgeColoring coloring;
    espalier::bench::FlatGreedy flat;
    Times coloring_times;
    Times times;
    Times flat_times;
    Times greedy_times;
    const int repetitions = RepetitionsFor(flows.size());
    for (int i = 0; i < repetitions; ++i) {
      coloring_times.Measure([&] { coloring.Color(edges, leaves, leaves, spines); });
      times.Measure([&] { assigner.Optimal(flows, kAssignOnly); });
      flat_times.Measure([&] { flat.Assign(leaves, spines, edges); });
      if (i < 15) greedy_times.Measure([&] { greedy.Greedy(flows); });
    }
    const Assignment& result = assigner.Optimal(flows, kAssignOnly);
    if (result.max_load != result.lower_bound) {
      fmt::print("load {}: NOT THE OPTIMUM\n", result.max_load.ToString());
      std::exit(1);
    }
    fmt::print(
        "{:7} {:5} {:4} | {:8.1f} {:8.1f} | {:8.1f} {:8.1f} | {:8.1f} {:8.1f} | {:8.0f} {:8.0f} | "
        "{:.2f} {:.2f}\n",
        flows.size(), leaves, spines, coloring_times.Minimum(), coloring_times.Median(),
        times.Minimum(), times.Median(), flat_times.Minimum(), flat_times.Median(),
        greedy_times.Minimum(), greedy_times.Median(), times.Minimum() / flat_times.Minimum(),
        times.Minimum() / greedy_times.Minimum());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view part = argc > 1 ? argv[1] : "";
  if (part.empty() || part == "tiers") MeasureAllTiers();
  if (part.empty() || part == "damage") MeasureDamage();
  if (part.empty() || part == "starts") MeasureAllStarts();
  if (part.empty() || part == "shares") espalier::bench::MeasureAllShares();
  if (part.empty() || part == "two") MeasureTwoTiers();
  return 0;
}
