#include "collective/runtime/choice/algorithm_choice.h"

#include <algorithm>
#include <array>
#include <span>

#include "collective/algorithms/algorithm.h"
#include "collective/transport/tcp/tcp_transport.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

constexpr std::array<std::string_view, 5> kAllReduce = {
    "allreduce-halving-doubling", "allreduce-ring-chunked", "allreduce-double-binary-tree",
    "allreduce-doubling", "allreduce-all-pairs"};
constexpr std::array<std::string_view, 2> kAllGather = {"allgather-bruck", "allgather-ring"};
constexpr std::array<std::string_view, 2> kReduceScatter = {"reduce-scatter-halving-doubling",
                                                            "reduce-scatter-ring"};
constexpr std::array<std::string_view, 3> kBroadcast = {
    "broadcast-binomial", "broadcast-one-to-all", "broadcast-pipelined"};
constexpr std::array<std::string_view, 1> kReduce = {"reduce-binomial"};
constexpr std::array<std::string_view, 1> kAllToAll = {"alltoall-direct"};
constexpr std::array<std::string_view, 1> kBarrier = {"barrier-all-to-all"};

constexpr std::array<std::string_view, 1> kAllToNext = {"alltonext"};

// With several ranks on each of several hosts.
struct Hierarchical {
  CollectiveKind kind;
  std::string_view algorithm;
};
constexpr std::array kHierarchical = {
    Hierarchical{CollectiveKind::kAllReduce, "allreduce-hierarchical"},
    Hierarchical{CollectiveKind::kAllReduce, "allreduce-bcube"},
    Hierarchical{CollectiveKind::kAllGather, "allgather-hierarchical"},
    Hierarchical{CollectiveKind::kReduceScatter, "reduce-scatter-hierarchical"},
    Hierarchical{CollectiveKind::kBroadcast, "broadcast-hierarchical"},
    Hierarchical{CollectiveKind::kReduce, "reduce-hierarchical"},
    Hierarchical{CollectiveKind::kAllToAll, "alltoall-two-step"}};

std::span<const std::string_view> FlatCandidatesOf(CollectiveKind kind, int ranks) {
  // With more ranks, all-pairs algorithms send too many messages to be considered.
  constexpr int kMaxRanksOfPairs = 32;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return std::span(kAllReduce).first(kAllReduce.size() - (ranks <= kMaxRanksOfPairs ? 0 : 1));
    case CollectiveKind::kAllGather:
      return kAllGather;
    case CollectiveKind::kReduceScatter:
      return kReduceScatter;
    case CollectiveKind::kReduce:
      return kReduce;
    case CollectiveKind::kBroadcast:
      return kBroadcast;
    case CollectiveKind::kAllToAll:
      return kAllToAll;
    case CollectiveKind::kAllToNext:
      return kAllToNext;
    default:
      return kBarrier;
  }
}

}  // namespace

std::vector<std::string_view> CandidatesOf(CollectiveKind kind, int ranks, int ranks_per_host) {
  const auto flat = FlatCandidatesOf(kind, ranks);
  std::vector<std::string_view> candidates(flat.begin(), flat.end());
  if (ranks_per_host < 2 || ranks_per_host >= ranks) return candidates;
  for (const Hierarchical& one : kHierarchical) {
    if (one.kind == kind) candidates.push_back(one.algorithm);
  }
  return candidates;
}

algorithms::AlgorithmOptions AlgorithmChoice::OptionsOf() const {
  algorithms::AlgorithmOptions options{.ranks = ranks_, .fifo_slots = fifo_slots_};
  options.ranks_per_node = hosts_.ranks_per_host;
  // Bcube's groups are hosts, and ranks of equal place in them.
  if (hosts_.ranks_per_host > 1) {
    options.base = std::max(hosts_.ranks_per_host, ranks_ / hosts_.ranks_per_host);
  }
  return options;
}

AlgorithmChoice AlgorithmChoice::OverTcp(const Costs& costs, int ranks) {
  const transport::TcpOptions options;
  return {costs, ranks, options.slots, options.message_bytes};
}

Result<std::vector<Prediction>> AlgorithmChoice::PredictAll(CollectiveKind kind,
                                                            std::size_t bytes) {
  std::vector<Candidate>& candidates = candidates_[kind];
  if (candidates.empty()) {
    for (const std::string_view name : CandidatesOf(kind, ranks_, hosts_.ranks_per_host)) {
      auto program = algorithms::MakeAlgorithm(name, OptionsOf());
      if (!program) return Propagate(program);
      candidates.push_back({name, hosts_.ranks_per_host > 0
                                      ? MeasureWork(*program, hosts_.ranks_per_host)
                                      : HostsWork{.between = MeasureWork(*program)}});
    }
  }
  std::vector<Prediction> predictions;
  for (const Candidate& candidate : candidates) {
    Work work = ScaleWork(candidate.work.between, bytes, message_bytes_, costs_.lanes);
    double seconds = Predict(costs_, work);
    if (hosts_.ranks_per_host > 0) {
      const Work within =
          ScaleWork(candidate.work.within, bytes, message_bytes_, hosts_.within.lanes);
      seconds += Predict(hosts_.within, within);
      work.rounds += within.rounds;
      work.messages += within.messages;
      work.bytes += within.bytes;
      work.reduced_bytes += within.reduced_bytes;
    }
    predictions.push_back({candidate.algorithm, work, seconds});
  }
  return predictions;
}

Result<std::string_view> AlgorithmChoice::Choose(CollectiveKind kind, std::size_t bytes) {
  const auto candidates = CandidatesOf(kind, ranks_, hosts_.ranks_per_host);
  if (candidates.size() == 1) return candidates.front();
  auto predictions = PredictAll(kind, bytes);
  if (!predictions) return Propagate(predictions);
  return std::min_element(
             predictions->begin(), predictions->end(),
             [](const Prediction& a, const Prediction& b) { return a.seconds < b.seconds; })
      ->algorithm;
}

}  // namespace espalier::runtime
