#include "common/fabric/accelerator_builders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace espalier::fabric {
namespace {

constexpr std::int64_t kMaxNodes = 65'536;
constexpr std::int64_t kMaxLinks = 4'194'304;
constexpr std::uint32_t kNicAddresses = 10U << 24;  // 10.0.0.0/8

constexpr BitsPerSecond Gbps(std::int64_t value) { return {value * 1'000'000'000}; }

Result<void> CheckSize(std::int64_t count, std::int64_t least, std::string_view what,
                       std::int64_t nodes, std::int64_t links) {
  if (count < least) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} {} are too few (give at least {})", count, what, least));
  }
  if (nodes > kMaxNodes || links > kMaxLinks) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} {} are too many (the limits are {} nodes and {} links)", count,
                            what, kMaxNodes, kMaxLinks));
  }
  return {};
}

Result<void> CheckRate(BitsPerSecond rate) {
  if (rate.value > 0) return {};
  return Fail(ErrorCode::kInvalidArgument, "a bandwidth is not positive (give more than 0 Gbit/s)");
}

class Builder {
 public:
  explicit Builder(std::string name) { spec_.name = std::move(name); }

  NodeId Add(std::string id, NodeKind kind, std::string host = "") {
    Node& node = spec_.nodes.emplace_back();
    node.id = std::move(id);
    node.kind = kind;
    node.host = std::move(host);
    return NodeId(static_cast<std::int32_t>(spec_.nodes.size() - 1));
  }

  // Adds nodes "n0", "n1", ...
  void AddNodes(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) Add(fmt::format("n{}", i), NodeKind::kCompute);
  }

  // Adds switches "ib0", ... that connect the boxes.
  std::vector<NodeId> AddFabric(int count) {
    std::vector<NodeId> ids;
    for (int i = 0; i < count; ++i) {
      ids.push_back(Add(fmt::format("ib{}", i), NodeKind::kSwitch));
      spec_.nodes.back().role = SwitchRole::kLeaf;
    }
    return ids;
  }

  // Leaves the id empty, so that parallel links are numbered as in files.
  Link& Join(NodeId a, NodeId b, BitsPerSecond rate) {
    Link& link = spec_.links.emplace_back();
    link.a = a;
    link.b = b;
    link.rate = rate;
    return link;
  }

  void JoinNic(NodeId nic, NodeId fabric_switch, BitsPerSecond rate) {
    const std::uint32_t even = kNicAddresses + 2 * nics_++;
    Link& link = Join(nic, fabric_switch, rate);
    link.a_address = IpAddress::FromV4(even + 1);
    link.b_address = IpAddress::FromV4(even);
    spec_.nodes[nic.Index()].addresses = {link.a_address};
  }

  TopologySpec Take() { return std::move(spec_); }

 private:
  TopologySpec spec_;
  std::uint32_t nics_ = 0;
};

std::string GpuId(int box, int gpu) { return fmt::format("box{}/gpu{}", box, gpu); }

// Adds the GPUs of one box, linked to its switch.
std::vector<NodeId> AddNvlinkBox(Builder& builder, int box, BitsPerSecond rate) {
  constexpr int kGpus = 8;
  const std::string host = fmt::format("box{}", box);
  std::vector<NodeId> gpus;
  for (int g = 0; g < kGpus; ++g) {
    gpus.push_back(builder.Add(GpuId(box, g), NodeKind::kCompute, host));
  }
  const NodeId inner = builder.Add(host + "/nvswitch", NodeKind::kSwitch, host);
  for (const NodeId gpu : gpus) builder.Join(gpu, inner, rate);
  return gpus;
}

struct Lane {
  int a;
  int b;
  int count;
};
constexpr std::array<Lane, 28> kMi250Lanes = {
    {{0, 1, 4},   {0, 4, 2},   {0, 8, 1},   {1, 5, 1},   {1, 9, 1},   {1, 10, 1},  {2, 3, 4},
     {2, 6, 1},   {2, 9, 1},   {2, 10, 1},  {3, 7, 2},   {3, 11, 1},  {4, 5, 4},   {4, 6, 1},
     {5, 6, 1},   {5, 7, 1},   {6, 7, 4},   {8, 9, 4},   {8, 12, 2},  {9, 13, 1},  {10, 11, 4},
     {10, 14, 1}, {11, 15, 2}, {12, 13, 4}, {12, 14, 1}, {13, 14, 1}, {13, 15, 1}, {14, 15, 4}}};

}  // namespace

Result<TopologySpec> BuildA100(const BoxOptions& options) {
  const std::int64_t boxes = options.boxes;
  if (auto ok = CheckSize(boxes, 1, "boxes", 17 * boxes + 2, 24 * boxes); !ok) {
    return Propagate(ok);
  }
  Builder builder(fmt::format("a100-{}", boxes));
  std::vector<std::vector<NodeId>> gpus;
  for (int a = 0; a < boxes; ++a) gpus.push_back(AddNvlinkBox(builder, a, Gbps(2'400)));
  if (boxes == 1) return builder.Take();
  const auto fabric = builder.AddFabric(2);
  for (int a = 0; a < boxes; ++a) {
    const std::string host = fmt::format("box{}", a);
    const auto& box = gpus[static_cast<std::size_t>(a)];
    for (std::size_t b = 0; b < box.size(); ++b) {
      const NodeId nic = builder.Add(fmt::format("{}/nic{}", host, b), NodeKind::kNic, host);
      builder.Join(box[b], nic, Gbps(200));
      builder.JoinNic(nic, fabric[b % 2], Gbps(200));
    }
  }
  return builder.Take();
}

Result<TopologySpec> BuildH100(const BoxOptions& options) {
  const std::int64_t boxes = options.boxes;
  if (auto ok = CheckSize(boxes, 1, "boxes", 9 * boxes + 1, 16 * boxes); !ok) return Propagate(ok);
  Builder builder(fmt::format("h100-{}", boxes));
  std::vector<NodeId> gpus;
  for (int a = 0; a < boxes; ++a) {
    const auto box = AddNvlinkBox(builder, a, Gbps(3'600));
    gpus.insert(gpus.end(), box.begin(), box.end());
  }
  if (boxes == 1) return builder.Take();
  const NodeId fabric = builder.AddFabric(1).front();
  for (const NodeId gpu : gpus) builder.JoinNic(gpu, fabric, Gbps(400));
  return builder.Take();
}

Result<TopologySpec> BuildMi250(const Mi250Options& options) {
  const std::int64_t boxes = options.boxes;
  const int kept = options.half ? 8 : 16;
  if (auto ok = CheckSize(boxes, 1, "boxes", kept * boxes + 1, (28 + kept) * boxes); !ok) {
    return Propagate(ok);
  }
  Builder builder(fmt::format("mi250{}-{}", options.half ? "-half" : "", boxes));
  std::vector<NodeId> gpus;
  const auto gpu_of = [&](int box, int gpu) {
    return gpus[static_cast<std::size_t>(box) * static_cast<std::size_t>(kept) +
                static_cast<std::size_t>(gpu)];
  };
  for (int a = 0; a < boxes; ++a) {
    const std::string host = fmt::format("box{}", a);
    for (int b = 0; b < kept; ++b) {
      gpus.push_back(builder.Add(GpuId(a, b), NodeKind::kCompute, host));
    }
    for (const Lane& lane : kMi250Lanes) {
      if (lane.a >= kept || lane.b >= kept) continue;
      builder.Join(gpu_of(a, lane.a), gpu_of(a, lane.b), Gbps(400 * lane.count));
    }
  }
  if (boxes == 1) return builder.Take();
  const NodeId fabric = builder.AddFabric(1).front();
  for (const NodeId gpu : gpus) builder.JoinNic(gpu, fabric, Gbps(128));
  return builder.Take();
}

Result<TopologySpec> BuildRing(const RingOptions& options) {
  const std::int64_t nodes = options.nodes;
  if (auto ok = CheckSize(nodes, 2, "nodes", nodes, nodes); !ok) return Propagate(ok);
  if (auto ok = CheckRate(options.rate); !ok) return Propagate(ok);
  Builder builder(fmt::format("{}ring-{}", options.directed ? "directed-" : "", nodes));
  builder.AddNodes(nodes);
  for (std::int32_t n = 0; n < nodes; ++n) {
    const NodeId next(static_cast<std::int32_t>((n + 1) % nodes));
    builder.Join(NodeId(n), next, options.rate).directed = options.directed;
  }
  return builder.Take();
}

Result<TopologySpec> BuildTorus(std::span<const int> dimensions, BitsPerSecond rate) {
  if (dimensions.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "a torus needs at least one dimension (such as 4x4)");
  }
  std::int64_t nodes = 1;
  for (const int size : dimensions) {
    if (auto ok = CheckSize(size, 2, "nodes in a dimension", size, 0); !ok) return Propagate(ok);
    nodes = nodes > kMaxNodes ? nodes : nodes * size;
  }
  const auto links = nodes * static_cast<std::int64_t>(dimensions.size());
  if (auto ok = CheckSize(nodes, 2, "nodes", nodes, links); !ok) return Propagate(ok);
  if (auto ok = CheckRate(rate); !ok) return Propagate(ok);

  Builder builder(fmt::format("torus-{}", fmt::join(dimensions, "x")));
  builder.AddNodes(nodes);
  for (std::int64_t n = 0; n < nodes; ++n) {
    std::int64_t stride = nodes;
    for (const int size : dimensions) {
      stride /= size;
      const std::int64_t place = n / stride % size;
      const std::int64_t next = n + ((place + 1) % size - place) * stride;
      builder.Join(NodeId(static_cast<std::int32_t>(n)), NodeId(static_cast<std::int32_t>(next)),
                   rate);
    }
  }
  return builder.Take();
}

Result<TopologySpec> BuildHypercube(int dimension, BitsPerSecond rate) {
  // 2^17 nodes are already too many; a larger exponent would overflow.
  const std::int64_t nodes = std::int64_t{1} << std::clamp(dimension, 0, 17);
  if (auto ok = CheckSize(dimension, 1, "dimensions", nodes, nodes * 8); !ok) return Propagate(ok);
  if (auto ok = CheckRate(rate); !ok) return Propagate(ok);
  Builder builder(fmt::format("hypercube-{}", dimension));
  builder.AddNodes(nodes);
  for (std::int32_t n = 0; n < nodes; ++n) {
    for (int bit = 0; bit < dimension; ++bit) {
      const std::int32_t other = n ^ (1 << bit);
      if (n < other) builder.Join(NodeId(n), NodeId(other), rate);
    }
  }
  return builder.Take();
}

}  // namespace espalier::fabric
