// Measures how long an optimal assignment of paths takes, compared with a greedy one, and how long
// it takes until an arriving flow or job has its paths while all others are in progress.
//
// Prints a table. Every figure is the minimum or the median of many repetitions on one thread. The
// algorithms alternate within one run, so that their ratios hold on a noisy machine, too. Every
// result is verified. Inputs: a random permutation of all hosts (each host sends one flow to
// another leaf), and rings.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/builders.h"
#include "common/graph/edge_coloring.h"
#include "common/graph/max_min.h"
#include "controller/routing/assigner.h"
#include "controller/routing/online/online_assigner.h"
#include "tests/bench/clos_fabrics.h"
#include "tests/bench/flat_greedy.h"

namespace {

using espalier::bench::Times;

using espalier::controller::SubflowId;
using espalier::graph::BipartiteEdge;
using espalier::graph::EdgeColoring;
using Edges = std::vector<BipartiteEdge>;

struct Input {
  std::string name;
  std::uint32_t leaves;
  std::uint32_t spines;
  Edges edges;  // in the order of the hosts
};

// Each host sends to a host under another leaf, and receives from one. `fraction` of the hosts
// take part.
Input Permutation(std::string name, std::uint32_t leaves, std::uint32_t hosts, std::uint32_t spines,
                  double fraction) {
  std::mt19937 random(leaves * 1'000 + hosts);
  std::vector<std::uint32_t> senders(std::size_t{leaves} * hosts);
  for (std::size_t i = 0; i < senders.size(); ++i) senders[i] = static_cast<std::uint32_t>(i);
  std::vector<std::uint32_t> receivers = senders;
  std::shuffle(senders.begin(), senders.end(), random);
  senders.resize(static_cast<std::size_t>(static_cast<double>(senders.size()) * fraction));
  std::sort(senders.begin(), senders.end());
  std::shuffle(receivers.begin(), receivers.end(), random);
  Input input{std::move(name), leaves, spines, {}};
  for (std::size_t i = 0; i < senders.size(); ++i) {
    std::size_t other = i;
    while (receivers[other] / hosts == senders[i] / hosts) other = random() % receivers.size();
    // This host gets another leaf; the one that it exchanges with may keep its own leaf.
    std::swap(receivers[i], receivers[other]);
  }
  for (std::size_t i = 0; i < senders.size(); ++i) {
    const BipartiteEdge edge{senders[i] / hosts, receivers[i] / hosts};
    if (edge.left != edge.right) input.edges.push_back(edge);
  }
  return input;
}

// Two jobs, one on the first `job_leaves` leaves and one on the others, with a permutation each.
Input TwoJobs(std::uint32_t leaves, std::uint32_t hosts, std::uint32_t spines,
              std::uint32_t job_leaves) {
  Input all = Permutation("", job_leaves, hosts, spines, 1);
  for (BipartiteEdge edge : Permutation("", leaves - job_leaves, hosts, spines, 1).edges) {
    all.edges.push_back({edge.left + job_leaves, edge.right + job_leaves});
  }
  all.leaves = leaves;
  return all;
}

// Random rings of `length` hosts, over all hosts.
Input Rings(std::string name, std::uint32_t leaves, std::uint32_t hosts, std::uint32_t spines,
            std::uint32_t length) {
  std::mt19937 random(leaves * 7 + hosts);
  std::vector<std::uint32_t> all(std::size_t{leaves} * hosts);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint32_t>(i);
  std::shuffle(all.begin(), all.end(), random);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> flows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t ring = i / length * length;
    const std::size_t size = std::min<std::size_t>(length, all.size() - ring);
    flows.emplace_back(all[i], all[ring + (i + 1 - ring) % size]);
  }
  std::sort(flows.begin(), flows.end());
  Input input{std::move(name), leaves, spines, {}};
  for (const auto& [from, to] : flows) {
    if (from / hosts != to / hosts) input.edges.push_back({from / hosts, to / hosts});
  }
  return input;
}

struct Loads {
  std::uint32_t worst = 0;
  bool equitable = true;
};

Loads Verify(const Input& input, std::span<const std::uint16_t> spines) {
  Loads result;
  for (const bool left : {true, false}) {
    std::vector<std::uint32_t> counts(std::size_t{input.leaves} * input.spines);
    std::vector<std::uint32_t> degrees(input.leaves);
    for (std::size_t i = 0; i < input.edges.size(); ++i) {
      const std::uint32_t leaf = left ? input.edges[i].left : input.edges[i].right;
      ++counts[std::size_t{leaf} * input.spines + spines[i]];
      ++degrees[leaf];
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::uint32_t degree = degrees[i / input.spines];
      result.worst = std::max(result.worst, counts[i]);
      if (counts[i] < degree / input.spines) result.equitable = false;
      if (counts[i] > (degree + input.spines - 1) / input.spines) result.equitable = false;
    }
  }
  return result;
}

void MeasureColoring(const Input& input) {
  EdgeColoring coloring;
  espalier::bench::FlatGreedy greedy;
  Times coloring_times;
  Times greedy_times;
  const int repetitions =
      static_cast<int>(std::clamp<std::size_t>(4'000'000 / (input.edges.size() + 1), 15, 2'000));
  for (int i = 0; i < repetitions; ++i) {
    coloring_times.Measure(
        [&] { coloring.Color(input.edges, input.leaves, input.leaves, input.spines); });
    greedy_times.Measure([&] { greedy.Assign(input.leaves, input.spines, input.edges); });
  }
  const Loads best =
      Verify(input, coloring.Color(input.edges, input.leaves, input.leaves, input.spines));
  if (!best.equitable) {
    fmt::print("{}: NOT EQUITABLE\n", input.name);
    std::exit(1);
  }
  const double least = coloring_times.Minimum();
  fmt::print("{:34} {:7} {:5} {:4} | {:8.1f} {:8.1f} | {:8.1f} {:5.2f} | {:2} {:2} | {:6} {:7}\n",
             input.name, input.edges.size(), input.leaves, input.spines, least,
             coloring_times.Median(), greedy_times.Minimum(), least / greedy_times.Minimum(),
             best.worst,
             Verify(input, greedy.Assign(input.leaves, input.spines, input.edges)).worst,
             coloring.effort().chains, coloring.effort().steps);
}

// Computes the rates of greedily assigned flows on 4 links each: NIC, up, down, NIC.
void MeasureMaxMin(const Input& input) {
  espalier::bench::FlatGreedy greedy;
  const auto& spines = greedy.Assign(input.leaves, input.spines, input.edges);
  const auto flows = static_cast<std::uint32_t>(input.edges.size());
  const std::uint32_t fabric_links = input.leaves * input.spines;
  const std::vector<double> capacities(2 * std::size_t{fabric_links} + 2 * std::size_t{flows},
                                       1e11);
  std::vector<std::uint32_t> begin{0};
  std::vector<std::uint32_t> links;
  for (std::uint32_t i = 0; i < flows; ++i) {
    const BipartiteEdge& edge = input.edges[i];
    links.insert(links.end(), {edge.left * input.spines + spines[i],
                               fabric_links + edge.right * input.spines + spines[i],
                               2 * fabric_links + i, 2 * fabric_links + flows + i});
    begin.push_back(static_cast<std::uint32_t>(links.size()));
  }
  espalier::graph::MaxMin max_min;
  Times times;
  for (int i = 0; i < 200; ++i) {
    times.Measure([&] { max_min.Solve(capacities, begin, links, 0, {}); });
  }
  fmt::print("\nmax-min rates of {} flows on 4 links each: {:.1f} us (median {:.1f})\n", flows,
             times.Minimum(), times.Median());
}

namespace fabric = espalier::fabric;
using espalier::controller::Assigner;
using espalier::controller::Assignment;
using espalier::controller::Commodity;
using espalier::controller::FabricView;
using espalier::controller::OnlineAssigner;

constexpr OnlineAssigner::Options kAnyMoves{.max_moves = 1'000'000, .step_budget = 1'000'000'000};

// A fabric with all its flows in progress.
class LiveFabric {
 public:
  explicit LiveFabric(const Input& input)
      : topology_(*fabric::Topology::Build(
            *fabric::BuildLeafSpine({.spines = static_cast<int>(input.spines),
                                     .leaves = static_cast<int>(input.leaves),
                                     .hosts_per_leaf = 1}))),
        table_(topology_),
        view_(topology_, table_),
        assigner_(view_),
        paths_(view_) {
    for (const BipartiteEdge& edge : input.edges) {
      flows_.push_back({.source = edge.left, .destination = edge.right});
    }
    const Assignment assignment = Optimal();
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      ways_.push_back(paths_.Add(flows_[i].source, flows_[i].destination));
      paths_.Place(ways_[i], assignment.paths[i]);
    }
  }

  std::vector<Commodity>& flows() { return flows_; }
  const Assignment& Optimal() { return assigner_.Optimal(flows_, {.step_budget = 0}); }
  void Stop(std::size_t flow) { paths_.Remove(ways_[flow]); }
  std::size_t Start(std::size_t flow) {
    ways_[flow] = paths_.Add(flows_[flow].source, flows_[flow].destination);
    return paths_.Start(ways_[flow], kAnyMoves).size() - 1;
  }
  // Starts the first flows together.
  void StartJob(std::size_t flows) {
    for (std::size_t i = 0; i < flows; ++i) {
      ways_[i] = paths_.Add(flows_[i].source, flows_[i].destination);
    }
    paths_.PlaceArrivals(std::span(ways_).first(flows), kAnyMoves);
  }
  // Lets the first flows exchange destinations among themselves.
  void ShuffleWithinJob(std::size_t flows, std::mt19937& random) {
    for (std::size_t i = 0; i < flows; ++i) {
      Commodity& x = flows_[i];
      Commodity& y = flows_[random() % flows];
      if (x.source != y.destination && y.source != x.destination) {
        std::swap(x.destination, y.destination);
      }
    }
  }
  // Returns the number of moved subflows.
  std::size_t LoseSpine(std::uint32_t spine) {
    for (std::size_t i = 0; i < topology_.links().size(); ++i) {
      const fabric::LinkId link(static_cast<std::int32_t>(i));
      if (topology_.node(topology_.link(link).b).id == "spine" + std::to_string(spine)) {
        topology_.SetLinkState(link, fabric::LinkState::kDown);
      }
    }
    view_.Refresh();
    std::size_t moves = 0;
    const auto stranded = paths_.HandleLinkChange();
    for (const auto subflow : stranded) moves += paths_.Start(subflow, kAnyMoves).size();
    return moves;
  }
  void ExpectOptimum() {
    if (paths_.MaxLoad() == Optimal().max_load) return;
    fmt::print("load {}: NOT THE OPTIMUM\n", paths_.MaxLoad().ToString());
    std::exit(1);
  }

 private:
  fabric::Topology topology_;
  fabric::PathTable table_;
  FabricView view_;
  Assigner assigner_;
  OnlineAssigner paths_;
  std::vector<Commodity> flows_;
  std::vector<SubflowId> ways_;
};

// The time to record the arrival of 1,024 flows whose paths are known: one record per flow, those
// of its two links, and a move, in arrays as large as those of OnlineAssigner.
double MeasureWriting(const Input& input) {
  struct Flow {
    std::int64_t values[6];
  };
  struct Link {
    std::int64_t values[4];
  };
  std::vector<Flow> flows(input.edges.size());
  std::vector<Link> links(2 * std::size_t{input.leaves} * input.spines);
  std::vector<OnlineAssigner::Move> moves(1'024);
  EdgeColoring coloring;
  const auto spines = coloring.Color(input.edges, input.leaves, input.leaves, input.spines);
  Times times;
  for (int round = 0; round < 200; ++round) {
    times.Measure([&] {
      for (std::uint32_t i = 0; i < moves.size(); ++i) {
        const BipartiteEdge& edge = input.edges[i];
        flows[i] = {{edge.left, edge.right, spines[i], round, 0, 0}};
        Link* const up = &links[edge.left * input.spines + spines[i]];
        Link* const down = &links[(input.leaves + edge.right) * input.spines + spines[i]];
        for (Link* const link : {up, down}) {
          ++link->values[0];
          link->values[2] = i;
        }
        moves[i] = {SubflowId(i), -1, spines[i]};
      }
    });
  }
  return times.Minimum();
}

void MeasureOnlineAssignment(const Input& input) {
  LiveFabric live(input);
  std::mt19937 random(1);
  const std::size_t count = live.flows().size();
  Times full;
  for (int i = 0; i < 5; ++i) full.Measure([&] { live.Optimal(); });

  // The job of 1,024 hosts ends and starts again with its destinations in another order.
  Times jobs;
  Times ones;
  for (int round = 0; round < 100; ++round) {
    for (std::size_t flow = 0; flow < 1'024; ++flow) live.Stop(flow);
    live.ShuffleWithinJob(1'024, random);
    jobs.Measure([&] { live.StartJob(1'024); });
    for (std::size_t flow = 0; flow < 1'024; ++flow) live.Stop(flow);
    live.ShuffleWithinJob(1'024, random);
    ones.Measure([&] {
      for (std::size_t flow = 0; flow < 1'024; ++flow) live.Start(flow);
    });
  }
  live.ExpectOptimum();
  const double floor = MeasureWriting(input);

  // Two flows end, and two start from the same leaves with their destinations exchanged. Every leaf
  // stays full, and each new flow finds one free spine at each end, mostly not the same.
  Times starts;
  Times chains;
  Times ends;
  std::size_t moved = 0;
  const int rounds = static_cast<int>(std::clamp<std::size_t>(200'000'000 / count, 2'000, 20'000));
  for (int i = 0; i < rounds; ++i) {
    const std::size_t a = random() % count;
    const std::size_t b = random() % count;
    Commodity& x = live.flows()[a];
    Commodity& y = live.flows()[b];
    if (a == b || x.source == y.destination || y.source == x.destination) continue;
    ends.Measure([&] { live.Stop(a); });
    ends.Measure([&] { live.Stop(b); });
    std::swap(x.destination, y.destination);
    for (const std::size_t flow : {a, b}) {
      std::size_t others = 0;
      starts.Measure([&] { others = live.Start(flow); });
      if (others == 0) continue;
      moved += others;
      chains.microseconds.push_back(starts.microseconds.back());
    }
  }
  live.ExpectOptimum();

  Times loss;
  std::size_t lost = 0;
  loss.Measure([&] { lost = live.LoseSpine(0); });
  live.ExpectOptimum();
  const double share = static_cast<double>(chains.microseconds.size()) /
                       static_cast<double>(starts.microseconds.size());
  fmt::print(
      "{:7} {:5} {:4} | {:5.2f} {:6.2f} {:8.1f} | {:4.2f} {:6.1f} {:8.1f} {:5.0f} | "
      "{:5.2f} {:5.2f} | {:6.1f} {:6.1f} {:5.1f} {:7.1f} {:5.3f} | {:7.1f} {:5}\n",
      count, input.leaves, input.spines, starts.Quantile(0.4), starts.Median(),
      starts.Quantile(0.99), share, chains.Median(), chains.Quantile(0.99),
      static_cast<double>(moved) / static_cast<double>(chains.microseconds.size()), ends.Median(),
      ends.Quantile(0.99), jobs.Minimum(), ones.Minimum(), floor, full.Minimum(),
      jobs.Minimum() / full.Minimum(), loss.Minimum(), lost);
}

// One flow ends, and one starts between two hosts without a flow; the given part of all hosts has
// one.
void MeasureOneForAnother(std::uint32_t leaves, std::uint32_t hosts, std::uint32_t spines,
                          double busy) {
  const Input input = Permutation("", leaves, hosts, spines, busy);
  std::vector<std::uint32_t> free_senders;
  std::vector<std::uint32_t> free_receivers;
  std::vector<std::uint32_t> sends(leaves);
  std::vector<std::uint32_t> receives(leaves);
  for (const BipartiteEdge& edge : input.edges) {
    ++sends[edge.left];
    ++receives[edge.right];
  }
  for (std::uint32_t leaf = 0; leaf < leaves; ++leaf) {
    for (std::uint32_t host = sends[leaf]; host < hosts; ++host) free_senders.push_back(leaf);
    for (std::uint32_t host = receives[leaf]; host < hosts; ++host) free_receivers.push_back(leaf);
  }
  LiveFabric live(input);
  std::mt19937 random(1);
  const auto count = input.edges.size();
  const int rounds = static_cast<int>(std::clamp<std::size_t>(400'000'000 / count, 5'000, 50'000));
  Times starts;
  Times ends;
  std::size_t chains = 0;
  std::size_t moved = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::size_t flow = random() % count;
    Commodity& commodity = live.flows()[flow];
    ends.Measure([&] { live.Stop(flow); });
    free_senders.push_back(commodity.source);
    free_receivers.push_back(commodity.destination);
    do {
      std::swap(free_senders.back(), free_senders[random() % free_senders.size()]);
      std::swap(free_receivers.back(), free_receivers[random() % free_receivers.size()]);
    } while (free_senders.back() == free_receivers.back());
    commodity.source = free_senders.back();
    commodity.destination = free_receivers.back();
    free_senders.pop_back();
    free_receivers.pop_back();
    std::size_t others = 0;
    starts.Measure([&] { others = live.Start(flow); });
    chains += others > 0 ? 1 : 0;
    moved += others;
  }
  live.ExpectOptimum();
  fmt::print("{:7} {:5} {:4} | {:5.2f} {:5.2f} {:7.2f} | {:4.2f} {:5.2f} | {:5.2f} {:5.2f}\n",
             count, leaves, spines, starts.Median(), starts.Quantile(0.9), starts.Quantile(0.99),
             static_cast<double>(chains) / static_cast<double>(rounds),
             static_cast<double>(moved) / static_cast<double>(std::max<std::size_t>(chains, 1)),
             ends.Median(), ends.Quantile(0.99));
}

void MeasureColorings() {
  fmt::print("{:34} {:>7} {:>5} {:>4} | {:>8} {:>8} | {:>8} {:>5} | {:>5} | {:>6} {:>7}\n",
             "coloring (us)", "flows", "leaf", "spin", "min", "median", "greedy", "ratio", "loads",
             "chains", "steps");
  for (const Input& input :
       {Permutation("permutation, not quite full", 64, 32, 32, 0.86),
        Permutation("permutation, every leaf full", 64, 32, 32, 1),
        Rings("rings of 8", 64, 32, 32, 8), Permutation("permutation", 256, 32, 32, 1),
        Rings("rings of 64", 256, 32, 32, 64), Permutation("permutation", 512, 64, 64, 1),
        Permutation("permutation", 1'024, 64, 64, 1),
        Permutation("permutation", 1'024, 128, 128, 1),
        Permutation("permutation, two a link", 1'024, 128, 64, 1)}) {
    MeasureColoring(input);
  }
}

void MeasureOnlineJobs() {
  fmt::print("\n{:>7} {:>5} {:>4} | {:>21} | {:>26} | {:>11} | {:>34} | {:>13}\n", "live", "leaf",
             "spin", "start: p40 p50 p99", "with chain: of all p50 p99 moved", "end: p50 p99",
             "1,024 start: together, singly, floor, full, ratio", "spine lost");
  for (const Input& input : {TwoJobs(64, 32, 32, 32), TwoJobs(256, 32, 32, 32),
                             TwoJobs(512, 64, 64, 16), TwoJobs(1'024, 128, 128, 8)}) {
    MeasureOnlineAssignment(input);
  }
}

void MeasureOnesForOthers() {
  fmt::print("\n{:>7} {:>5} {:>4} | {:>19} | {:>10} | {:>11}\n", "live", "leaf", "spin",
             "start: p50 p90 p99", "moved: of", "end: p50 p99");
  for (const double busy : {0.98, 0.9}) {
    MeasureOneForAnother(64, 32, 32, busy);
    MeasureOneForAnother(256, 32, 32, busy);
    MeasureOneForAnother(512, 64, 64, busy);
    MeasureOneForAnother(1'024, 128, 128, busy);
  }
}

}  // namespace

// usage: assignment_bench [colouring|rates|jobs|flows]
int main(int argc, char** argv) {
  const std::string_view part = argc > 1 ? argv[1] : "";
  const auto is_asked_for = [&](std::string_view name) { return part.empty() || part == name; };
  if (is_asked_for("colouring")) MeasureColorings();
  if (is_asked_for("rates")) MeasureMaxMin(Permutation("", 64, 32, 32, 1));
  if (is_asked_for("jobs")) MeasureOnlineJobs();
  if (is_asked_for("flows")) MeasureOnesForOthers();
  return 0;
}
