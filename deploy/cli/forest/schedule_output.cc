#include "deploy/cli/forest/schedule_output.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "collective/forest/files/forest_binary.h"
#include "common/files/json_writer.h"
#include "deploy/cli/forest/schedule_program.h"

namespace espalier::forest {

using fabric::Topology;

namespace {

void WriteSavings(const std::vector<ClassSaving>& savings, io::JsonWriter& writer) {
  writer.Key("savings").BeginArray();
  for (const ClassSaving& saving : savings) {
    writer.BeginObject().Key("from").String(saving.from).Key("to").String(saving.to);
    writer.Key("gbps").String(FormatGbps(saving.rate));
    writer.Key("before").Integer(saving.before).Key("after").Integer(saving.after).EndObject();
  }
  writer.EndArray();
}

}  // namespace

std::string DescribeReuse(const Reuse& reuse) {
  if (reuse.kept == 0) return "kept         no previous tree: all trees are new\n";
  const double share = static_cast<double>(reuse.kept) / static_cast<double>(reuse.all);
  return fmt::format(
      "kept         {} of {} trees are previous ones ({:.1f} % of the weight), {} of them "
      "rerouted\n",
      reuse.kept, reuse.all, 100 * share, reuse.rerouted);
}

Result<std::string> FormatSchedule(const Topology& topology, const TreeSchedule& schedule,
                                   const Findings& findings,
                                   const std::vector<ClassSaving>& savings,
                                   const StageSeconds& seconds, const std::string& format,
                                   std::size_t tree, const std::optional<AllreduceProof>& proof) {
  if (format == "binary") return EncodeForest(topology, schedule);
  if (format == "summary") {
    return SummariseForest(topology, schedule, findings) +
           (schedule.in_network ? SummariseSavings(savings) : "");
  }
  if (format == "dot") return FormatTreeAsDot(topology, schedule, tree);
  if (format == "program") return FormatAsProgramJson(schedule);
  if (format == "msccl-xml") return FormatAsMscclXml(schedule);
  if (format == "mscclpp-json") return FormatAsMscclppJson(schedule);
  return FormatForestJson(topology, schedule, seconds, proof);
}

std::string FormatFigures(const TreeSchedule& schedule, const Findings& findings,
                          const std::vector<ClassSaving>& savings, const StageSeconds* seconds,
                          const std::optional<AllreduceProof>& proof,
                          const std::optional<Reuse>& reuse) {
  std::int64_t unroutable = 0;
  std::size_t classes = 0;
  FallbackCounters fallbacks;
  for (const Forest& forest : schedule.forests) {
    unroutable += forest.unroutable_edges;
    classes += forest.classes.size();
    fallbacks.batches_halved += forest.fallbacks.batches_halved;
    fallbacks.guesses_refused += forest.fallbacks.guesses_refused;
    fallbacks.bisections += forest.fallbacks.bisections;
    fallbacks.exact_gammas += forest.fallbacks.exact_gammas;
    fallbacks.exhaustive_rounds += forest.fallbacks.exhaustive_rounds;
  }
  io::JsonWriter writer;
  const auto rates = [&](std::string_view key, const Rational& inverse_rate) {
    writer.Key(key).BeginObject().Key("inverse_rate").String(inverse_rate.ToString());
    writer.Key("algbw_gbps").String(schedule.AlgorithmGbps(inverse_rate).ToString());
  };
  writer.BeginObject().Key("collective").String(CollectiveName(schedule.collective));
  writer.Key("compute_nodes").Integer(static_cast<std::int64_t>(schedule.ranks.size()));
  writer.Key("method").String(MethodName(schedule.forests.front().method));
  rates("bound", schedule.bound_inverse_rate);
  writer.EndObject();
  writer.Key("trees_per_root").Integer(schedule.trees_per_weight);
  writer.Key("tree_gbps").String(schedule.tree_gbps.ToString());
  rates("achieved", schedule.inverse_rate);
  writer.Key("fraction_of_bound").String(schedule.FractionOfBound().ToString()).EndObject();
  writer.Key("height").BeginObject().Key("max").Integer(findings.heights.max);
  writer.Key("mean").Double(findings.heights.mean).EndObject();
  writer.Key("unroutable_edges").Integer(unroutable);
  writer.Key("classes").Integer(static_cast<std::int64_t>(classes));
  writer.Key("edges").Integer(findings.edges);
  if (reuse) {
    writer.Key("kept").BeginObject().Key("trees").Integer(reuse->kept);
    writer.Key("of").Integer(reuse->all);
    writer.Key("rerouted").Integer(reuse->rerouted);
    writer.Key("share").String(Rational(reuse->kept, reuse->all).ToString()).EndObject();
  }
  if (schedule.in_network) WriteSavings(savings, writer);
  if (proof) WriteProof(*proof, writer);
  if (seconds != nullptr) {
    writer.Key("fallbacks").BeginObject();
    writer.Key("batches_halved").Integer(fallbacks.batches_halved);
    writer.Key("guesses_refused").Integer(fallbacks.guesses_refused);
    writer.Key("bisections").Integer(fallbacks.bisections);
    writer.Key("exact_gammas").Integer(fallbacks.exact_gammas);
    writer.Key("exhaustive_rounds").Integer(fallbacks.exhaustive_rounds).EndObject();
    writer.Key("seconds").BeginObject();
    writer.Key("bound").Double(seconds->bound);
    writer.Key("switch_removal").Double(seconds->switch_removal);
    writer.Key("packing").Double(seconds->packing);
    writer.Key("height").Double(seconds->height);
    writer.Key("verify").Double(seconds->verify).EndObject();
  }
  writer.EndObject();
  return writer.Text() + "\n";
}

}  // namespace espalier::forest
