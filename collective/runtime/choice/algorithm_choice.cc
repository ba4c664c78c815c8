#include "collective/runtime/choice/algorithm_choice.h"

#include <algorithm>
#include <array>

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

}  // namespace

std::span<const std::string_view> CandidatesOf(CollectiveKind kind, int ranks) {
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
    default:
      return kBarrier;
  }
}

AlgorithmChoice AlgorithmChoice::OverTcp(const Costs& costs, int ranks) {
  const transport::TcpOptions options;
  return {costs, ranks, options.slots, options.message_bytes};
}

Result<std::vector<Prediction>> AlgorithmChoice::PredictAll(CollectiveKind kind,
                                                            std::size_t bytes) {
  std::vector<Candidate>& candidates = candidates_[kind];
  if (candidates.empty()) {
    for (const std::string_view name : CandidatesOf(kind, ranks_)) {
      auto program = algorithms::MakeAlgorithm(name, {.ranks = ranks_, .fifo_slots = fifo_slots_});
      if (!program) return Propagate(program);
      candidates.push_back({name, MeasureWork(*program)});
    }
  }
  std::vector<Prediction> predictions;
  for (const Candidate& candidate : candidates) {
    const Work work = ScaleWork(candidate.work, bytes, message_bytes_, costs_.lanes);
    predictions.push_back({candidate.algorithm, work, Predict(costs_, work)});
  }
  return predictions;
}

Result<std::string_view> AlgorithmChoice::Choose(CollectiveKind kind, std::size_t bytes) {
  const auto candidates = CandidatesOf(kind, ranks_);
  if (candidates.size() == 1) return candidates.front();
  auto predictions = PredictAll(kind, bytes);
  if (!predictions) return Propagate(predictions);
  return std::min_element(
             predictions->begin(), predictions->end(),
             [](const Prediction& a, const Prediction& b) { return a.seconds < b.seconds; })
      ->algorithm;
}

}  // namespace espalier::runtime
