#include "collective/forest/files/forest_binary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "collective/forest/files/byte_stream.h"
#include "collective/forest/files/route_code.h"

namespace espalier::forest {
namespace {

using fabric::NodeId;

constexpr std::uint64_t kOnShare = 1;
constexpr std::uint64_t kInNetwork = 2;

// The bits that encode an index among `arcs` arcs. At least one, so that a file is never much
// smaller than its contents.
int WidthOf(std::size_t arcs) { return std::max(1, static_cast<int>(std::bit_width(arcs - 1))); }

class Encoder {
 public:
  Encoder(const fabric::Topology& topology, const TreeSchedule& schedule)
      : topology_(topology), schedule_(schedule) {}

  std::string Encode() {
    ListNodes();
    writer_.Number(names_.size());
    for (const NodeId node : names_) writer_.Text(topology_.node(node).id);
    WriteHead();
    for (const Forest& forest : schedule_.forests) WriteForest(forest);
    writer_.Number(schedule_.phases.size());
    for (const Phase& phase : schedule_.phases) {
      writer_.Number(phase.forest);
      writer_.Number(phase.reversed ? 1 : 0);
      writer_.Number(phase.channels.size());
      for (const Channel& channel : phase.channels) {
        writer_.Number(place_[channel.from.Index()]);
        writer_.Number(place_[channel.to.Index()]);
      }
    }
    return std::string(kForestMagic) + writer_.Take();
  }

 private:
  // Lists the ranks first, in their order, and then every other named node.
  void ListNodes() {
    place_.assign(topology_.nodes().size(), 0);
    std::vector<bool> listed(topology_.nodes().size(), false);
    const auto list = [&](NodeId node) {
      if (listed[node.Index()]) return;
      listed[node.Index()] = true;
      place_[node.Index()] = names_.size();
      names_.push_back(node);
    };
    for (const NodeId rank : schedule_.ranks) list(rank);
    for (const NodeId node : schedule_.cut) list(node);
    for (const Phase& phase : schedule_.phases) {
      for (const Channel& channel : phase.channels) {
        list(channel.from);
        list(channel.to);
      }
    }
  }

  void WriteHead() {
    writer_.Number(static_cast<std::uint64_t>(schedule_.collective));
    writer_.Number((schedule_.on_share ? kOnShare : 0) | (schedule_.in_network ? kInNetwork : 0));
    writer_.Number(schedule_.ranks.size());
    for (const std::int64_t weight : schedule_.weights) {
      writer_.Number(static_cast<std::uint64_t>(weight));
    }
    writer_.Terms(schedule_.bound_inverse_rate);
    writer_.Number(schedule_.cut.size());
    for (const NodeId node : schedule_.cut) writer_.Number(place_[node.Index()]);
    writer_.Number(static_cast<std::uint64_t>(schedule_.trees_per_weight));
    writer_.Terms(schedule_.tree_gbps);
    writer_.Terms(schedule_.inverse_rate);
    writer_.Number(schedule_.forests.size());
  }

  void WriteForest(const Forest& forest) {
    writer_.Number(static_cast<std::uint64_t>(forest.method));
    writer_.Number(static_cast<std::uint64_t>(forest.unroutable_edges));
    WriteRoutes(forest.routes, writer_);
    writer_.Number(forest.classes.size());
    for (const TreeClass& tree : forest.classes) {
      writer_.Number(tree.root);
      writer_.Number(static_cast<std::uint64_t>(tree.count));
    }
    WriteParents(forest);
  }

  void WriteParents(const Forest& forest) {
    const auto ranks = static_cast<std::size_t>(forest.rank_count);
    std::vector<std::uint16_t> place_of(ranks * ranks, 0);  // by child, then parent
    std::vector<std::size_t> arcs_into(ranks, 0);
    for (std::size_t arc = 0; arc < forest.routes.ArcCount(); ++arc) {
      const std::size_t to = forest.routes.To(arc);
      place_of[to * ranks + forest.routes.From(arc)] = static_cast<std::uint16_t>(arcs_into[to]++);
    }
    std::vector<int> width(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      width[r] = WidthOf(std::max<std::size_t>(arcs_into[r], 1));
    }
    for (std::size_t c = 0; c < forest.classes.size(); ++c) {
      const std::span<const Rank> parents = forest.Parents(c);
      for (std::size_t r = 0; r < ranks; ++r) {
        if (parents[r] != kNoRank) writer_.Bits(place_of[r * ranks + parents[r]], width[r]);
      }
    }
    writer_.Flush();
  }

  const fabric::Topology& topology_;
  const TreeSchedule& schedule_;
  ByteWriter writer_;
  std::vector<NodeId> names_;
  std::vector<std::size_t> place_;  // by node, into names_
};

class Decoder {
 public:
  Decoder(std::string_view bytes, std::string_view name, const fabric::Topology& topology)
      : reader_(bytes), name_(name), topology_(topology) {}

  Result<TreeSchedule> Decode() {
    if (auto done = ReadNames(); !done) return Propagate(done);
    if (auto done = ReadHead(); !done) return Propagate(done);
    for (Forest& forest : schedule_.forests) {
      if (auto done = ReadForest(forest); !done) return Propagate(done);
    }
    if (auto done = ReadPhases(); !done) return Propagate(done);
    if (reader_.Left() > 0) return Broken("there is extra data after the forest");
    return std::move(schedule_);
  }

 private:
  tl::unexpected<Error> Broken(std::string_view what) const {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:byte {}: {}", name_, kForestMagic.size() + reader_.Offset(), what));
  }
  tl::unexpected<Error> Damaged() const { return Broken("the file is truncated or damaged"); }

  // Reads a number of items that take at least a byte each.
  std::size_t Count() { return static_cast<std::size_t>(reader_.NumberUpTo(reader_.Left())); }
  NodeId ReadNode() {
    const std::uint64_t place = reader_.NumberUpTo(names_.size() - 1);
    return names_[static_cast<std::size_t>(place)];
  }
  std::int64_t ReadInteger() {
    return static_cast<std::int64_t>(reader_.NumberUpTo(std::uint64_t{1} << 62));
  }

  Result<void> ReadNames() {
    const std::size_t count = Count();
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view id = reader_.Text();
      if (reader_.Failed()) return Damaged();
      const auto node = topology_.FindNode(id);
      if (!node) {
        return Broken(fmt::format("the topology has no node \"{}\"", id.substr(0, 80)));
      }
      names_.push_back(*node);
    }
    if (names_.empty()) return Damaged();
    return {};
  }

  Result<void> ReadHead() {
    schedule_.collective = static_cast<Collective>(
        reader_.NumberUpTo(std::uint64_t{static_cast<int>(Collective::kReduce)}));
    const std::uint64_t flags = reader_.NumberUpTo(kOnShare | kInNetwork);
    schedule_.on_share = (flags & kOnShare) != 0;
    schedule_.in_network = (flags & kInNetwork) != 0;
    const std::size_t ranks = Count();
    if (ranks < 2 || ranks > std::min(names_.size(), kMaxRanks)) return Damaged();
    schedule_.ranks.assign(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(ranks));
    for (std::size_t r = 0; r < ranks; ++r) schedule_.weights.push_back(ReadInteger());
    schedule_.bound_inverse_rate = reader_.Terms();
    const std::size_t cut = Count();
    for (std::size_t i = 0; i < cut; ++i) schedule_.cut.push_back(ReadNode());
    schedule_.trees_per_weight = ReadInteger();
    schedule_.tree_gbps = reader_.Terms();
    schedule_.inverse_rate = reader_.Terms();
    schedule_.forests.resize(static_cast<std::size_t>(reader_.NumberUpTo(2)));
    if (reader_.Failed()) return Damaged();
    return {};
  }

  Result<void> ReadForest(Forest& forest) {
    const std::size_t ranks = schedule_.ranks.size();
    forest.rank_count = static_cast<std::int32_t>(ranks);
    forest.trees_per_weight = schedule_.trees_per_weight;
    forest.method =
        static_cast<Method>(reader_.NumberUpTo(std::uint64_t{static_cast<int>(Method::kLabels)}));
    forest.unroutable_edges = ReadInteger();
    auto routes = ReadRoutes(reader_, ranks);
    if (!routes || reader_.Failed()) return Damaged();
    forest.routes = std::move(*routes);
    const std::size_t classes = Count();
    for (std::size_t c = 0; c < classes && !reader_.Failed(); ++c) {
      const auto root = static_cast<Rank>(reader_.NumberUpTo(ranks - 1));
      forest.classes.push_back({root, ReadInteger()});
    }
    if (reader_.Failed() || !ReadParents(forest)) return Damaged();
    return {};
  }

  bool ReadParents(Forest& forest) {
    const std::size_t ranks = schedule_.ranks.size();
    std::vector<std::size_t> begin(ranks + 1, 0);  // arcs by child
    for (std::size_t arc = 0; arc < forest.routes.ArcCount(); ++arc) {
      ++begin[forest.routes.To(arc) + std::size_t{1}];
    }
    std::vector<int> width(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      width[r] = WidthOf(std::max<std::size_t>(begin[r + 1], 1));
      begin[r + 1] += begin[r];
    }
    // Each class takes at least a bit for every rank but its root.
    if (ranks < 2 || forest.classes.size() > 8 * reader_.Left() / (ranks - 1)) return false;
    forest.parents.assign(forest.classes.size() * ranks, kNoRank);
    for (std::size_t c = 0; c < forest.classes.size(); ++c) {
      const std::span<Rank> parents = forest.Parents(c);
      for (std::size_t r = 0; r < ranks; ++r) {
        if (r == forest.classes[c].root) continue;
        const std::size_t arc = begin[r] + reader_.Bits(width[r]);
        if (arc >= begin[r + 1]) return false;
        parents[r] = forest.routes.From(arc);
      }
    }
    reader_.SkipToByte();
    return !reader_.Failed();
  }

  Result<void> ReadPhases() {
    const std::size_t phases = Count();
    for (std::size_t p = 0; p < phases; ++p) {
      Phase& phase = schedule_.phases.emplace_back();
      phase.forest = static_cast<std::size_t>(reader_.Number());
      phase.reversed = reader_.NumberUpTo(1) == 1;
      const std::size_t channels = Count();
      for (std::size_t c = 0; c < channels && !reader_.Failed(); ++c) {
        const NodeId from = ReadNode();
        phase.channels.push_back({from, ReadNode()});
      }
      if (reader_.Failed()) return Damaged();
    }
    if (reader_.Failed()) return Damaged();
    return {};
  }

  ByteReader reader_;
  std::string name_;
  const fabric::Topology& topology_;
  std::vector<NodeId> names_;
  TreeSchedule schedule_;
};

}  // namespace

std::string EncodeForest(const fabric::Topology& topology, const TreeSchedule& schedule) {
  return Encoder(topology, schedule).Encode();
}

Result<TreeSchedule> DecodeForest(std::string_view bytes, std::string_view name,
                                  const fabric::Topology& topology) {
  if (!bytes.starts_with(kForestMagic)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}:byte 0: not a forest file", name));
  }
  return Decoder(bytes.substr(kForestMagic.size()), name, topology).Decode();
}

}  // namespace espalier::forest
