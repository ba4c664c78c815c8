#include "collective/forest/files/forest_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/forest/in_network/in_network.h"
#include "collective/forest/model/routed_trees.h"
#include "common/files/json_writer.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;

class Formatter {
 public:
  Formatter(const fabric::Topology& topology, const TreeSchedule& schedule)
      : topology_(topology), schedule_(schedule) {}

  Result<std::string> Format(const StageSeconds& seconds,
                             const std::optional<AllreduceProof>& proof) {
    writer_.BeginObject();
    WriteHead();
    if (proof) WriteProof(*proof, writer_);
    writer_.Key("trees").BeginArray();
    for (const Phase& phase : schedule_.phases) {
      TreePruner pruner(topology_, schedule_, phase);
      VisitRoutedTrees(schedule_.forests[phase.forest], [&](const RoutedTree& tree) {
        WriteTree(phase, tree, pruner);
        return written_ <= kMaxForestJson;
      });
    }
    writer_.EndArray();
    if (written_ > kMaxForestJson) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the forest is larger than {} characters of JSON (write it with "
                              "--format binary)",
                              kMaxForestJson));
    }
    writer_.Key("seconds").BeginObject();
    writer_.Key("bound").Double(seconds.bound);
    writer_.Key("switch_removal").Double(seconds.switch_removal);
    writer_.Key("packing").Double(seconds.packing);
    writer_.Key("height").Double(seconds.height);
    writer_.Key("verify").Double(seconds.verify);
    writer_.EndObject().EndObject();
    return writer_.Text();
  }

 private:
  void WriteHead() {
    std::int64_t unroutable = 0;
    for (const Forest& forest : schedule_.forests) unroutable += forest.unroutable_edges;
    Heights heights;
    for (const Forest& forest : schedule_.forests) {
      const Heights own = ComputeHeights(forest);
      heights.max = std::max(heights.max, own.max);
      heights.mean = std::max(heights.mean, own.mean);
    }
    writer_.Key("collective").String(CollectiveName(schedule_.collective));
    writer_.Key("compute_nodes").Integer(static_cast<std::int64_t>(schedule_.ranks.size()));
    writer_.Key("method").String(MethodName(schedule_.forests.front().method));
    writer_.Key("share").Bool(schedule_.on_share);
    writer_.Key("in_network").Bool(schedule_.in_network);
    writer_.Key("bound").BeginObject();
    WriteRates(schedule_.bound_inverse_rate);
    WriteIds("cut", schedule_.cut);
    writer_.EndObject();
    writer_.Key("trees_per_root").Integer(schedule_.trees_per_weight);
    writer_.Key("tree_gbps").String(schedule_.tree_gbps.ToString());
    writer_.Key("achieved").BeginObject();
    WriteRates(schedule_.inverse_rate);
    writer_.Key("fraction_of_bound").String(schedule_.FractionOfBound().ToString()).EndObject();
    writer_.Key("height").BeginObject();
    writer_.Key("max").Integer(heights.max).Key("mean").Double(heights.mean).EndObject();
    writer_.Key("unroutable_edges").Integer(unroutable);
    WriteIds("ranks", schedule_.ranks);
    writer_.Key("weights").BeginArray();
    for (const std::int64_t weight : schedule_.weights) writer_.Integer(weight);
    writer_.EndArray();
  }

  void WriteRates(const Rational& inverse_rate) {
    writer_.Key("inverse_rate").String(inverse_rate.ToString());
    writer_.Key("algbw_gbps").String(schedule_.AlgorithmGbps(inverse_rate).ToString());
  }

  void WriteIds(std::string_view key, std::span<const NodeId> nodes) {
    writer_.Key(key).BeginArray();
    for (const NodeId node : nodes) WriteId(node);
    writer_.EndArray();
  }

  void WriteId(NodeId node) {
    const std::string& id = topology_.node(node).id;
    written_ += id.size() + 3;
    writer_.String(id);
  }

  void WriteTree(const Phase& phase, const RoutedTree& tree, TreePruner& pruner) {
    written_ += 48;
    writer_.BeginObject();
    if (schedule_.phases.size() > 1) {
      writer_.Key("phase").String(
          CollectiveName(phase.reversed ? Collective::kReduceScatter : Collective::kAllgather));
    }
    writer_.Key("root");
    WriteId(schedule_.ranks[tree.root]);
    writer_.Key("count").Integer(tree.count);
    writer_.Key("height").Integer(tree.height);
    writer_.Key("edges").BeginArray();
    std::span<const std::int32_t> pruned;
    if (schedule_.in_network) pruned = pruner.Prune(tree);
    for (std::size_t e = 0; e < tree.edges.size(); ++e) {
      const TreeEdge& edge = tree.edges[e];
      const bool cut = !pruned.empty() && pruned[e] > 0;
      WriteEdge(phase, edge, cut ? std::optional(pruner.SwitchAt(edge, pruned[e])) : std::nullopt);
    }
    writer_.EndArray().EndObject();
  }

  // Writes an edge in the direction of the data. at: the switch that copies or adds up for it.
  void WriteEdge(const Phase& phase, const TreeEdge& edge, std::optional<NodeId> at) {
    written_ += 30;
    const RoutingTable& routes = schedule_.forests[phase.forest].routes;
    const std::span<const std::int32_t> hops = routes.Hops(*edge.route);
    const NodeId parent = schedule_.ranks[edge.parent];
    const NodeId child = schedule_.ranks[edge.child];
    writer_.BeginObject().Key("from");
    WriteId(phase.reversed ? child : parent);
    writer_.Key("to");
    WriteId(phase.reversed ? parent : child);
    writer_.Key("path").BeginArray();
    WriteId(phase.reversed ? child : parent);
    for (std::size_t h = 0; h < hops.size(); ++h) {
      const std::int32_t hop = phase.reversed ? hops[hops.size() - 1 - h] : hops[h];
      WriteId(phase.channels[static_cast<std::size_t>(hop)].to);
    }
    writer_.EndArray();
    if (at) {
      writer_.Key(phase.reversed ? "added_at" : "copied_at");
      WriteId(*at);
    }
    writer_.EndObject();
  }

  const fabric::Topology& topology_;
  const TreeSchedule& schedule_;
  io::JsonWriter writer_;
  std::size_t written_ = 0;  // characters of the ids and their punctuation, approximately
};

}  // namespace

Result<std::string> FormatForestJson(const fabric::Topology& topology, const TreeSchedule& schedule,
                                     const StageSeconds& seconds,
                                     const std::optional<AllreduceProof>& proof) {
  return Formatter(topology, schedule).Format(seconds, proof);
}

void WriteProof(const AllreduceProof& proof, io::JsonWriter& writer) {
  writer.Key("proof").BeginObject();
  writer.Key("better_possible").Bool(proof.better_possible);
  writer.Key("best_algbw_gbps");
  if (proof.exact_gbps) {
    writer.String(proof.exact_gbps->ToString());
  } else {
    writer.Double(proof.best_gbps);
  }
  writer.Key("exact").Bool(proof.exact_gbps.has_value());
  writer.Key("parts").Integer(static_cast<std::int64_t>(proof.parts)).EndObject();
}

}  // namespace espalier::forest
