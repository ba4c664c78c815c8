#include "deploy/cli/bench/bench_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "collective/runtime/choice/algorithm_choice.h"
#include "collective/runtime/shared/area/shared_protocol_kind.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

Result<Costs> LoadCosts(const BenchRequest& request) {
  if (request.costs_file.empty()) return FindCosts({}, request.medium, request.ranks);
  auto table = ReadCostsFile(request.costs_file);
  if (!table) return Propagate(table);
  return FindCosts(*table, request.medium, request.ranks);
}

Result<std::vector<Prediction>> PredictAll(const BenchRequest& request, const Costs& costs,
                                           AlgorithmChoice& choice, std::size_t bytes) {
  if (request.medium != Medium::kShared) return choice.PredictAll(request.kind, bytes);
  std::vector<Prediction> predictions;
  for (const SharedProtocolKind protocol :
       {SharedProtocolKind::kSmall, SharedProtocolKind::kStaged}) {
    const Work work = SharedWork(protocol, request.ranks, bytes, costs.lanes);
    predictions.push_back({SharedProtocolName(protocol), work, Predict(costs, work)});
  }
  if (bytes > kMaxSmallBytes) predictions.erase(predictions.begin());
  return predictions;
}

bool HasChoice(CollectiveKind kind, Medium medium, int ranks) {
  return medium == Medium::kShared ? kind == CollectiveKind::kAllReduce
                                   : CandidatesOf(kind, ranks).size() > 1;
}

void Decide(ExplainedSize& size) {
  const auto least = [&](double ExplainedCandidate::*seconds) {
    const auto found =
        std::min_element(size.candidates.begin(), size.candidates.end(),
                         [&](const auto& a, const auto& b) { return a.*seconds < b.*seconds; });
    return static_cast<std::size_t>(std::distance(size.candidates.begin(), found));
  };
  size.chosen = least(&ExplainedCandidate::predicted_seconds);
  size.fastest = least(&ExplainedCandidate::measured_seconds);
}

// Measures one algorithm at all sizes, and stores the results where it is a candidate.
Result<void> MeasureCandidate(const BenchRequest& request, std::string_view algorithm,
                              std::vector<ExplainedSize>& sizes) {
  BenchRequest own = request;
  own.algorithm = algorithm;
  auto rows = RunBench(own);
  if (!rows) return Propagate(rows);
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const BenchRow& row = (*rows)[i];
    for (ExplainedCandidate& candidate : sizes[i].candidates) {
      if (candidate.algorithm != algorithm) continue;
      candidate.measured_seconds = row.seconds;
      candidate.minimum_seconds = row.minimum_seconds;
      candidate.errors = row.errors;
    }
  }
  return {};
}

}  // namespace

Result<Explanation> ExplainBench(const BenchRequest& request) {
  const auto costs = LoadCosts(request);
  if (!costs) return tl::unexpected(costs.error());
  return ExplainBench(request, *costs);
}

Result<Explanation> ExplainBench(const BenchRequest& request, const Costs& costs) {
  const auto sizes = ListSizes(request);
  if (!sizes) return tl::unexpected(sizes.error());
  if (request.registered || !HasChoice(request.kind, request.medium, request.ranks)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--explain: {} over {} has only one algorithm",
                            program::CollectiveKindName(request.kind), MediumName(request.medium)));
  }
  AlgorithmChoice choice = AlgorithmChoice::OverTcp(costs, request.ranks);
  Explanation explanation{.costs = costs};
  std::vector<std::string> names;
  for (const std::size_t bytes : *sizes) {
    auto predictions = PredictAll(request, costs, choice, bytes);
    if (!predictions) return Propagate(predictions);
    ExplainedSize& size = explanation.sizes.emplace_back();
    size.bytes = bytes;
    for (const Prediction& one : *predictions) {
      size.candidates.push_back({.algorithm = std::string(one.algorithm),
                                 .work = one.work,
                                 .predicted_seconds = one.seconds});
      const bool is_new = std::find(names.begin(), names.end(), one.algorithm) == names.end();
      if (is_new) names.emplace_back(one.algorithm);
    }
  }
  for (const std::string& name : names) {
    auto measured = MeasureCandidate(request, name, explanation.sizes);
    if (!measured) return Propagate(measured);
  }
  for (ExplainedSize& size : explanation.sizes) Decide(size);
  return explanation;
}

Result<Costs> FitBench(int ranks, Medium medium) {
  const int lanes = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<CostSample> samples;
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                    CollectiveKind::kReduceScatter, CollectiveKind::kBroadcast}) {
    if (!HasChoice(kind, medium, ranks)) continue;
    auto explained = ExplainBench({.kind = kind,
                                   .ranks = ranks,
                                   .medium = medium,
                                   .min_bytes = 1 << 10,
                                   .max_bytes = 4 << 20,
                                   .factor = 8,
                                   .repetitions = 7},
                                  {.lanes = lanes});
    if (!explained) return Propagate(explained);
    for (const ExplainedSize& size : explained->sizes) {
      for (const ExplainedCandidate& one : size.candidates) {
        samples.push_back({one.work, one.minimum_seconds});
      }
    }
  }
  return FitCosts(samples, lanes);
}

}  // namespace espalier::runtime
