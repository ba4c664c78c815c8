#include "collective/forest/files/parse_forest_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "collective/forest/model/exact_text.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;
using io::JsonFields;
using io::JsonValue;

constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max() / 2;

// The trees of one phase while they are read: classes, and the routes of every edge in order.
struct OpenPhase {
  bool reversed = false;
  Forest forest;
  struct OpenRoute {
    std::int64_t count = 0;
    std::vector<std::int32_t> hops;
  };
  std::map<std::pair<Rank, Rank>, std::vector<OpenRoute>> routes;  // by child, then parent
  std::map<std::pair<NodeId, NodeId>, std::int32_t> channel_of;
  std::vector<Channel> channels;

  std::int32_t ChannelFor(NodeId from, NodeId to) {
    const auto [found, fresh] =
        channel_of.try_emplace({from, to}, static_cast<std::int32_t>(channels.size()));
    if (fresh) channels.push_back({from, to});
    return found->second;
  }
};

class Parser {
 public:
  Parser(std::string_view name, const fabric::Topology& topology)
      : name_(name), topology_(topology) {}

  Result<TreeSchedule> Parse(const JsonValue& document) {
    JsonFields fields(document, name_);
    ReadHead(fields);
    const JsonValue* bound = ReadRates(fields, "bound", schedule_.bound_inverse_rate);
    ReadRates(fields, "achieved", schedule_.inverse_rate);
    ReadDerived(fields);
    const auto& ranks = fields.Array("ranks");
    const auto& weights = fields.Array("weights");
    const auto& trees = fields.RequiredArray("trees");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    if (error_) return tl::unexpected<Error>(*error_);

    ReadRanks(ranks);
    ReadWeights(weights);
    if (bound != nullptr) ReadCut(*bound);
    if (error_) return tl::unexpected<Error>(*error_);
    OpenPhases();
    for (const JsonValue& tree : trees) {
      ReadTree(tree);
      if (error_) return tl::unexpected<Error>(*error_);
    }
    Close();
    return std::move(schedule_);
  }

 private:
  void SetError(const JsonValue& at, std::string message) {
    if (error_) return;
    error_ = Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}:{}:{}: {}", name_, at.line, at.column, message)};
  }

  void Keep(Result<void> done) {
    if (!done && !error_) error_ = std::move(done.error());
  }

  void ReadHead(JsonFields& fields) {
    const std::string collective = fields.RequiredString("collective");
    if (const auto found = FindCollective(collective)) {
      schedule_.collective = *found;
    } else {
      fields.AddError("collective", fmt::format("unknown collective \"{}\"", collective));
    }
    const std::string method = fields.String("method", MethodName(Method::kGeneral));
    bool known = false;
    for (const Method candidate :
         {Method::kGeneral, Method::kHierarchical, Method::kTransitive, Method::kLabels}) {
      if (MethodName(candidate) != method) continue;
      method_ = candidate;
      known = true;
    }
    if (!known) fields.AddError("method", fmt::format("unknown method \"{}\"", method));
    schedule_.on_share = fields.Bool("share", false);
    schedule_.in_network = fields.Bool("in_network", false);
    if (schedule_.in_network) schedule_.stated_copies.emplace();
    schedule_.trees_per_weight = fields.Integer("trees_per_root", 1, 1, kMaxInteger);
    schedule_.tree_gbps = ReadRational(fields, "tree_gbps");
    unroutable_edges_ = fields.Integer("unroutable_edges", 0, 0, kMaxInteger);
  }

  // Reads fields that follow from others or say how the schedule was made: only their form is
  // checked.
  void ReadDerived(JsonFields& fields) {
    fields.Integer("compute_nodes", 0, 0, kMaxInteger);
    if (const JsonValue* height = fields.Object("height")) {
      JsonFields inner(*height, name_);
      inner.Integer("max", 0, 0, kMaxInteger);
      inner.Decimal("mean");
      Keep(inner.Finish());
    }
    if (const JsonValue* proof = fields.Object("proof")) {
      JsonFields inner(*proof, name_);
      inner.Bool("better_possible", false);
      inner.Decimal("best_algbw_gbps");
      inner.Bool("exact", false);
      inner.Integer("parts", 0, 0, kMaxInteger);
      Keep(inner.Finish());
    }
    if (const JsonValue* seconds = fields.Object("seconds")) {
      JsonFields inner(*seconds, name_);
      for (const char* stage : {"bound", "switch_removal", "packing", "height", "verify"}) {
        inner.Decimal(stage);
      }
      Keep(inner.Finish());
    }
  }

  static Rational ReadRational(JsonFields& fields, std::string_view key) {
    const std::string text = fields.RequiredString(key);
    const auto value = ParseRational(text);
    if (value && !value->IsZero()) return *value;
    fields.AddError(
        key,
        fmt::format("\"{}\" is not a positive rational number (write \"7/2\" or \"3\")", text));
    return Rational(1, 1);
  }

  const JsonValue* ReadRates(JsonFields& fields, std::string_view key, Rational& inverse_rate) {
    const JsonValue* object = fields.Object(key);
    if (object == nullptr) {
      fields.AddError("", fmt::format("field \"{}\" is missing", key));
      return nullptr;
    }
    JsonFields inner(*object, name_);
    inverse_rate = ReadRational(inner, "inverse_rate");
    inner.String("algbw_gbps");
    inner.String("fraction_of_bound");
    inner.Array("cut");
    Keep(inner.Finish());
    return object;
  }

  std::optional<NodeId> ReadNode(const JsonValue& value) {
    const auto node =
        value.kind == JsonValue::Kind::kString ? topology_.FindNode(value.text) : std::nullopt;
    if (!node) {
      SetError(value, fmt::format("the topology has no node \"{}\"", value.text.substr(0, 80)));
    }
    return node;
  }

  // Reads the ranks. They default to all compute nodes.
  void ReadRanks(const std::vector<JsonValue>& ranks) {
    for (const JsonValue& value : ranks) {
      if (const auto node = ReadNode(value)) schedule_.ranks.push_back(*node);
    }
    if (ranks.empty()) {
      for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
        if (topology_.nodes()[i].kind != fabric::NodeKind::kCompute) continue;
        schedule_.ranks.emplace_back(static_cast<std::int32_t>(i));
      }
    }
    if (schedule_.ranks.size() > kMaxRanks) {
      schedule_.ranks.resize(kMaxRanks);
      if (!error_) error_ = Error{ErrorCode::kInvalidArgument, name_ + ": too many ranks"};
    }
    rank_of_.assign(topology_.nodes().size(), kNoRank);
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
      rank_of_[schedule_.ranks[r].Index()] = static_cast<Rank>(r);
    }
  }

  void ReadWeights(const std::vector<JsonValue>& weights) {
    for (const JsonValue& value : weights) {
      // Whole numbers can only be read as a field of an object; an item of an array has no key.
      JsonValue holder;
      holder.kind = JsonValue::Kind::kObject;
      holder.members.emplace_back("weight", value);
      JsonFields field(holder, name_);
      schedule_.weights.push_back(field.Integer("weight", 0, 0, kMaxInteger));
      Keep(field.Finish());
    }
    if (weights.empty()) schedule_.weights.assign(schedule_.ranks.size(), 1);
  }

  void ReadCut(const JsonValue& bound) {
    const JsonValue* cut = bound.Find("cut");
    if (cut == nullptr) return;
    for (const JsonValue& value : cut->items) {
      if (const auto node = ReadNode(value)) schedule_.cut.push_back(*node);
    }
  }

  void OpenPhases() {
    const auto open = [&](bool reversed) {
      OpenPhase& phase = phases_.emplace_back();
      phase.reversed = reversed;
      phase.forest.method = method_;
      phase.forest.rank_count = static_cast<std::int32_t>(schedule_.ranks.size());
      phase.forest.trees_per_weight = schedule_.trees_per_weight;
    };
    if (GoesUp(schedule_.collective)) open(true);
    if (GoesDown(schedule_.collective)) open(false);
    phases_.front().forest.unroutable_edges = unroutable_edges_;
  }

  OpenPhase* FindPhase(JsonFields& fields) {
    const std::string word = fields.String("phase");
    if (phases_.size() == 1 && !fields.Has("phase")) return &phases_.front();
    for (OpenPhase& phase : phases_) {
      if (word ==
          CollectiveName(phase.reversed ? Collective::kReduceScatter : Collective::kAllgather)) {
        return &phase;
      }
    }
    fields.AddError("phase",
                    "field \"phase\" must name a phase of the collective (\"reduce-scatter\" or "
                    "\"allgather\")");
    return nullptr;
  }

  std::optional<Rank> ReadRank(const JsonValue& object, std::string_view key) {
    const JsonValue* value = object.Find(key);
    if (value == nullptr) return std::nullopt;  // JsonFields has reported the error
    const auto node = ReadNode(*value);
    if (!node) return std::nullopt;
    const Rank rank = rank_of_[node->Index()];
    if (rank != kNoRank) return rank;
    SetError(*value, fmt::format("{} is no rank", value->text));
    return std::nullopt;
  }

  void ReadTree(const JsonValue& value) {
    JsonFields fields(value, name_);
    OpenPhase* phase = FindPhase(fields);
    fields.RequiredString("root");
    const std::int64_t count = fields.Integer("count", 1, 1, kMaxInteger);
    fields.Integer("height", 0, 0, kMaxInteger);
    const auto& edges = fields.RequiredArray("edges");
    Keep(fields.Finish());
    const auto root = ReadRank(value, "root");
    if (error_ || phase == nullptr || !root) return;
    Forest& forest = phase->forest;
    forest.classes.push_back({*root, count});
    const std::size_t first = forest.parents.size();
    forest.parents.resize(first + schedule_.ranks.size(), kNoRank);
    for (const JsonValue& edge : edges) {
      ReadEdge(edge, count, {forest.parents.data() + first, schedule_.ranks.size()}, *phase);
      if (error_) return;
    }
  }

  void ReadEdge(const JsonValue& value, std::int64_t count, std::span<Rank> parents,
                OpenPhase& phase) {
    JsonFields fields(value, name_);
    fields.RequiredString("from");
    fields.RequiredString("to");
    const auto& path = fields.RequiredArray("path");
    const std::string_view copy_key = phase.reversed ? "added_at" : "copied_at";
    if (schedule_.in_network) fields.String(copy_key);
    Keep(fields.Finish());
    const auto from = ReadRank(value, "from");
    const auto to = ReadRank(value, "to");
    if (error_ || !from || !to) return;
    const Rank parent = phase.reversed ? *to : *from;
    const Rank child = phase.reversed ? *from : *to;
    if (parents[child] != kNoRank) {
      return SetError(value, fmt::format("{} has two parents in this tree",
                                         topology_.node(schedule_.ranks[child]).id));
    }
    parents[child] = parent;
    if (const JsonValue* at = value.Find(copy_key); schedule_.in_network && at != nullptr) {
      const auto node = ReadNode(*at);
      if (!node) return;
      schedule_.stated_copies->push_back({static_cast<std::size_t>(&phase - phases_.data()),
                                          phase.forest.classes.size() - 1, child, *node});
    }
    std::vector<std::int32_t> hops;
    std::optional<NodeId> last;
    for (const JsonValue& item : path) {
      const auto node = ReadNode(item);
      if (!node) return;
      if (last) hops.push_back(phase.ChannelFor(*last, *node));
      if (!last && *node != schedule_.ranks[*from])
        return SetError(item, "the path does not begin at \"from\"");
      last = node;
    }
    if (hops.empty() || *last != schedule_.ranks[*to])
      return SetError(value, "the path does not end at \"to\"");
    if (phase.reversed) std::reverse(hops.begin(), hops.end());
    auto& routes = phase.routes[{child, parent}];
    if (!routes.empty() && routes.back().hops == hops &&
        routes.back().count <= kMaxInteger - count) {
      routes.back().count += count;
    } else {
      routes.push_back({count, std::move(hops)});
    }
  }

  void Close() {
    for (OpenPhase& phase : phases_) {
      for (const auto& [edge, routes] : phase.routes) {
        phase.forest.routes.AddArc(edge.second, edge.first);
        for (const auto& route : routes) phase.forest.routes.AddRoute(route.count, route.hops);
      }
      phase.forest.routes.Index(phase.forest.rank_count);
      schedule_.phases.push_back(
          {schedule_.forests.size(), phase.reversed, std::move(phase.channels)});
      schedule_.forests.push_back(std::move(phase.forest));
    }
  }

  std::string name_;
  const fabric::Topology& topology_;
  TreeSchedule schedule_;
  Method method_ = Method::kGeneral;
  std::int64_t unroutable_edges_ = 0;
  std::vector<Rank> rank_of_;  // by node
  std::vector<OpenPhase> phases_;
  std::optional<Error> error_;
};

}  // namespace

Result<TreeSchedule> ParseForestJson(std::string_view text, std::string_view name,
                                     const fabric::Topology& topology) {
  auto document = io::ParseJson(text, name);
  if (!document) return Propagate(document);
  return Parser(name, topology).Parse(*document);
}

}  // namespace espalier::forest
