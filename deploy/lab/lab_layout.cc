#include "deploy/lab/lab_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "common/fabric/builders.h"

namespace espalier::lab {
namespace {

constexpr int kMaxPerTier = 128;
constexpr int kMaxNodes = 4096;
constexpr int kMaxRails = 16;
constexpr BitsPerSecond kMinRate{1'000'000};
// The rate in the topology of links without a limit, which run as fast as the machine.
constexpr BitsPerSecond kNominalRate{10'000'000'000};

bool IsFileName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

Result<void> CheckUplinks(const LabOptions& options) {
  if (options.uplinks < 1 || options.uplinks > kMaxRails || options.leaves % options.uplinks != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} uplinks: give 1 to {}, and leaves that are a multiple",
                            options.uplinks, kMaxRails));
  }
  const bool is_plain = options.rails == 1 && options.pods == 0 && !options.ipv6 &&
                        options.routing == Routing::kStatic;
  if (options.uplinks == 1 || is_plain) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "a lab with several uplinks has two tiers, one rail, IPv4 and static routes");
}

Result<void> CheckShape(const LabOptions& options) {
  const auto in_range = [](int count) { return count >= 1 && count <= kMaxPerTier; };
  if (!in_range(options.spines) || !in_range(options.leaves) || !in_range(options.hosts_per_leaf)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("lab of {} spines, {} leaves, {} hosts per leaf: each number must be 1 to {}",
                    options.spines, options.leaves, options.hosts_per_leaf, kMaxPerTier));
  }
  if (options.pods == 0 && options.cores != 0) {
    return Fail(ErrorCode::kInvalidArgument, "a lab of two tiers has no cores (give --pods)");
  }
  if (options.pods != 0) {
    if (!in_range(options.pods) || !in_range(options.cores) || !in_range(options.LeafCount()) ||
        !in_range(options.SpineCount())) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("lab of {} pods with {} leaves and {} aggregation switches, {} cores: "
                      "each tier must have 1 to {} switches",
                      options.pods, options.leaves, options.spines, options.cores, kMaxPerTier));
    }
    if (options.cores % options.spines != 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} cores: give a multiple of the {} aggregation switches of a pod",
                              options.cores, options.spines));
    }
  }
  if (options.rails < 1 || options.rails > kMaxRails || options.leaves % options.rails != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} rails: give 1 to {}, and leaves{} that are a multiple",
                            options.rails, kMaxRails, options.pods == 0 ? "" : " of each pod"));
  }
  if (options.rails > 1 && options.ipv6) {
    return Fail(ErrorCode::kInvalidArgument, "a lab with several rails speaks IPv4 only");
  }
  if (Result<void> uplinks = CheckUplinks(options); !uplinks) return uplinks;
  if (options.planes < 1 || options.Lanes() % options.planes != 0 ||
      options.spines % options.planes != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} planes: give rails (or uplinks) and spines that are a multiple",
                            options.planes));
  }
  if (options.gpus < 0 || options.gpus > options.rails ||
      (options.gpus != 0 && (options.pods != 0 || options.rails % options.gpus != 0))) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} GPUs of a host: give rails that are a multiple, and no pods",
                            options.gpus));
  }
  if (options.planes > 1 && options.pods != 0) {
    return Fail(ErrorCode::kInvalidArgument, "a lab with pods has a plane for each --spines");
  }
  if (options.routing == Routing::kFrr && options.ipv6) {
    return Fail(ErrorCode::kInvalidArgument, "a lab with FRR speaks IPv4 only");
  }
  const int switches = options.cores + options.SpineCount() + options.LeafCount();
  if (switches + options.LeafCount() * options.hosts_per_leaf > kMaxNodes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the lab would have more than {} nodes (use fewer hosts)", kMaxNodes));
  }
  return {};
}

}  // namespace

Result<LabLayout> LabLayout::Make(LabOptions options) {
  if (!IsFileName(options.name)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("lab name '{}' is invalid (use letters, digits, '-', '_' and '.')",
                            options.name));
  }
  if (Result<void> shape = CheckShape(options); !shape) return Propagate(shape);
  if (options.link_rate && *options.link_rate < kMinRate) {
    return Fail(ErrorCode::kInvalidArgument, "the link rate is below 1 Mbit/s (use at least 1)");
  }
  return LabLayout(std::move(options));
}

LabLayout::LabLayout(LabOptions options) : options_(std::move(options)) {
  AddNodes();
  AddLinks();
  DrawSeeds();
}

void LabLayout::AddNodes() {
  const auto add = [&](Role role, std::string_view name, int count) {
    for (int i = 0; i < count; ++i) nodes_.push_back({role, i, fmt::format("{}{}", name, i)});
  };
  add(Role::kCore, "core", options_.cores);
  add(Role::kSpine, options_.pods == 0 ? "spine" : "agg", options_.SpineCount());
  add(Role::kLeaf, "leaf", options_.LeafCount());
  add(Role::kHost, "h", HostCount());
}

int LabLayout::PositionOf(Role role, int index) const {
  int position = index;
  if (role < Role::kCore) position += options_.cores;
  if (role < Role::kSpine) position += options_.SpineCount();
  if (role < Role::kLeaf) position += options_.LeafCount();
  return position;
}

void LabLayout::AddLinks() {
  const auto port = [&](Role role, int index, std::string interface, std::string address) {
    const int position = PositionOf(role, index);
    return LabPort{position, NodeAt(position).name, std::move(interface), std::move(address)};
  };
  for (int n = 0; n < NicCount(); ++n) {
    const int place = n % options_.hosts_per_leaf;
    for (int uplink = 0; uplink < options_.uplinks; ++uplink) {
      const int leaf = LeafOfNic(n) + uplink;
      const std::string address =
          options_.uplinks == 1 ? NicAddress(n) : fmt::format("10.{}.{}.3", leaf, place);
      links_.push_back(
          {port(Role::kHost, HostOf(n), fmt::format("eth{}", RailOf(n) + uplink), address),
           port(Role::kLeaf, leaf, fmt::format("h{}", place), LeafAddressOfNic(n, uplink))});
      links_.back().lower.in_topology = NicName(n);
    }
  }
  for (int l = 0; l < options_.LeafCount(); ++l) {
    const int pod = l / options_.leaves;
    for (int s = 0; s < options_.spines; ++s) {
      if (PlaneOfLeaf(l) != PlaneOfSpine(s)) continue;
      links_.push_back(
          {port(Role::kLeaf, l, fmt::format("s{}", s), FabricAddress(16, l, s, /*upper=*/false)),
           port(Role::kSpine, pod * options_.spines + s, fmt::format("l{}", l % options_.leaves),
                FabricAddress(16, l, s, /*upper=*/true))});
    }
  }
  if (options_.pods == 0) return;
  const int plane_cores = options_.cores / options_.spines;
  for (int g = 0; g < options_.SpineCount(); ++g) {
    for (int c = 0; c < plane_cores; ++c) {
      const int core = g % options_.spines * plane_cores + c;
      links_.push_back(
          {port(Role::kSpine, g, fmt::format("c{}", c), FabricAddress(17, g, c, /*upper=*/false)),
           port(Role::kCore, core, fmt::format("p{}", g / options_.spines),
                FabricAddress(17, g, c, /*upper=*/true))});
    }
  }
}

void LabLayout::DrawSeeds() {
  std::mt19937_64 random(options_.seed);
  const int count = options_.LeafCount() + (SpinesChoose() ? options_.SpineCount() : 0) +
                    (options_.uplinks > 1 ? HostCount() : 0);
  while (seeds_.size() < static_cast<std::size_t>(count)) {
    const auto seed = static_cast<std::uint32_t>(random() >> 33);
    if (seed != 0 && std::find(seeds_.begin(), seeds_.end(), seed) == seeds_.end()) {
      seeds_.push_back(seed);
    }
  }
}

std::optional<std::uint32_t> LabLayout::HashSeed(const LabNode& node) const {
  const int spines = SpinesChoose() ? options_.SpineCount() : 0;
  int first = 0;  // of the tier
  if (node.role == Role::kSpine && spines > 0) {
    first = options_.LeafCount();
  } else if (node.role == Role::kHost && options_.uplinks > 1) {
    first = options_.LeafCount() + spines;
  } else if (node.role != Role::kLeaf) {
    return std::nullopt;
  }
  int place = first + node.index;
  if (options_.hash_seeds == HashSeeds::kTier) place = first;
  if (options_.hash_seeds == HashSeeds::kEqual) place = 0;
  return seeds_[static_cast<std::size_t>(place)];
}

const LabNode* LabLayout::FindNode(const std::string& name) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const LabNode& node) { return node.name == name; });
  if (found != nodes_.end()) return &*found;
  const std::string host = name.substr(0, name.find('/'));
  for (int rail = 0; options_.rails > 1 && rail < options_.rails; ++rail) {
    for (const char* const part : {"nic", "gpu"}) {
      if (name == fmt::format("{}/{}{}", host, part, rail)) return FindNode(host);
    }
  }
  return nullptr;
}

int LabLayout::HostOf(int nic) const {
  const int group = nic / (options_.hosts_per_leaf * options_.rails);
  return group * options_.hosts_per_leaf + nic % options_.hosts_per_leaf;
}

int LabLayout::NicOf(int host, int rail) const {
  const int leaf = host / options_.hosts_per_leaf * options_.rails + rail;
  return leaf * options_.hosts_per_leaf + host % options_.hosts_per_leaf;
}

int LabLayout::PlaneOfLeaf(int leaf) const {
  return leaf % options_.Lanes() * options_.planes / options_.Lanes();
}

std::string LabLayout::NicName(int nic) const {
  const std::string host = fmt::format("h{}", HostOf(nic));
  return options_.rails == 1 ? host : fmt::format("{}/nic{}", host, RailOf(nic));
}

std::string LabLayout::RankName(int rank) const {
  const std::string host = fmt::format("h{}", rank / options_.GpusOfHost());
  return options_.rails == 1 ? host : fmt::format("{}/gpu{}", host, rank % options_.GpusOfHost());
}

std::string LabLayout::RankAddress(int rank) const {
  const int gpus = options_.GpusOfHost();
  return NicAddress(NicOf(rank / gpus, rank % gpus * (options_.rails / gpus)));
}

std::string LabLayout::NicAddress(int nic) const {
  const int leaf = LeafOfNic(nic);
  const int slot = nic % options_.hosts_per_leaf;
  return options_.ipv6 ? fmt::format("fd00:10:{:x}:{:x}::1", leaf, slot)
                       : fmt::format("10.{}.{}.1", leaf, slot);
}

std::string LabLayout::LeafAddressOfNic(int nic, int uplink) const {
  const int leaf = LeafOfNic(nic) + uplink;
  const int slot = nic % options_.hosts_per_leaf;
  if (options_.uplinks > 1) return fmt::format("10.{}.{}.2", leaf, slot);
  return options_.ipv6 ? fmt::format("fd00:10:{:x}:{:x}::", leaf, slot)
                       : fmt::format("10.{}.{}.0", leaf, slot);
}

std::string LabLayout::FabricAddress(int network, int switch_index, int uplink, bool upper) const {
  return options_.ipv6
             ? fmt::format("fd00:{}:{:x}:{:x}::{}", 156 + network, switch_index, uplink,
                           upper ? "1" : "")
             : fmt::format("172.{}.{}.{}", network, switch_index, 2 * uplink + (upper ? 1 : 0));
}

std::string LabLayout::ManagementAddress(int host) const {
  return fmt::format("10.255.{}.{}", 1 + host / 250, 1 + host % 250);
}

std::string LabLayout::LeafPrefix(int leaf) const {
  return options_.ipv6 ? fmt::format("fd00:10:{:x}::/48", leaf) : fmt::format("10.{}.0.0/16", leaf);
}

Result<fabric::TopologySpec> LabLayout::MakeTopology() const {
  const BitsPerSecond fabric_rate = options_.link_rate.value_or(kNominalRate);
  // A path has the uplink that it takes, too, which is limited as its other links are.
  const BitsPerSecond host_rate =
      options_.uplinks > 1 ? fabric_rate : std::max(kNominalRate, fabric_rate);
  Result<fabric::TopologySpec> spec =
      options_.pods == 0 ? fabric::BuildLeafSpine({.spines = options_.spines,
                                                   .leaves = options_.leaves,
                                                   .hosts_per_leaf = options_.hosts_per_leaf,
                                                   .host_rate = host_rate,
                                                   .fabric_rate = fabric_rate,
                                                   .rails = options_.rails,
                                                   .planes = options_.planes,
                                                   .gpus = options_.gpus,
                                                   .uplinks = options_.uplinks})
                         : fabric::BuildPods({.pods = options_.pods,
                                              .leaves_per_pod = options_.leaves,
                                              .aggs_per_pod = options_.spines,
                                              .cores = options_.cores,
                                              .hosts_per_leaf = options_.hosts_per_leaf,
                                              .host_rate = host_rate,
                                              .fabric_rate = fabric_rate,
                                              .rails = options_.rails});
  if (!spec) return spec;
  spec->name = options_.name;
  const auto address = [](const std::string& text) {
    return IpAddress::Parse(text).value_or(IpAddress());
  };
  std::map<std::string, const LabLink*> links;
  std::map<std::string, IpAddress> nics;
  for (const LabLink& link : links_) {
    links[fmt::format("{}--{}", link.lower.in_topology, link.upper.in_topology)] = &link;
  }
  for (int n = 0; n < NicCount(); ++n) nics[NicName(n)] = address(NicAddress(n));
  for (fabric::Node& node : spec->nodes) {
    if (const auto nic = nics.find(node.id); nic != nics.end()) node.addresses = {nic->second};
    const LabNode* own = FindNode(node.id);
    if (own == nullptr || !options_.hash_hint) continue;
    const char* const hash = own->role == Role::kHost ? "linux-l4" : "linux";
    if (const auto seed = HashSeed(*own)) node.ecmp = fabric::EcmpSpec{hash, *seed};
  }
  for (fabric::Link& link : spec->links) {
    const auto own = links.find(link.id);
    if (own == links.end()) continue;
    link.a_address = address(own->second->lower.address);
    link.b_address = address(own->second->upper.address);
    link.a_port = own->second->lower.interface;
    link.b_port = own->second->upper.interface;
  }
  return spec;
}

std::vector<LabLayout::Neighbour> LabLayout::NeighboursOf(const LabNode& node) const {
  const int position = PositionOf(node.role, node.index);
  std::vector<Neighbour> neighbours;
  for (const LabLink& link : links_) {
    if (link.lower.node == position) neighbours.push_back({&link.lower, &link.upper});
    if (link.upper.node == position) neighbours.push_back({&link.upper, &link.lower});
  }
  return neighbours;
}

bool LabLayout::IsInPlaneOf(int leaf, const LabNode& node) const {
  // A group of leaves that shares its hosts by several uplinks has a leaf in every plane.
  if (options_.planes == 1 || options_.uplinks > 1) return true;
  return PlaneOfLeaf(leaf) ==
         (node.role == Role::kLeaf ? PlaneOfLeaf(node.index) : PlaneOfSpine(node.index));
}

bool LabLayout::IsBelow(int leaf, const LabNode& node) const {
  switch (node.role) {
    case Role::kHost:
      return false;
    case Role::kLeaf:
      return node.index / options_.uplinks == leaf / options_.uplinks;
    case Role::kSpine:
      return options_.pods == 0 || node.index / options_.spines == leaf / options_.leaves;
    case Role::kCore:
      return true;
  }
  return false;
}

std::vector<std::pair<std::string, const LabPort*>> LabLayout::HostRoutes(
    const LabNode& leaf) const {
  std::vector<std::pair<std::string, const LabPort*>> routes;
  if (options_.uplinks == 1 || leaf.role != Role::kLeaf) return routes;
  for (int n = 0; n < NicCount(); ++n) {
    if (LeafOfNic(n) / options_.uplinks != leaf.index / options_.uplinks) continue;
    for (const Neighbour& neighbour : NeighboursOf(leaf)) {
      const LabNode& other = NodeAt(neighbour.other->node);
      if (other.role != Role::kHost || other.index != n) continue;
      routes.emplace_back(fmt::format("{}/32 via {}", NicAddress(n), neighbour.other->address),
                          neighbour.own);
    }
  }
  return routes;
}

std::vector<LabLayout::NextHop> LabLayout::NextHops(const LabNode& node, int leaf) const {
  std::vector<NextHop> hops;
  if (node.role == Role::kHost || !IsInPlaneOf(leaf, node)) return hops;
  const bool is_below = IsBelow(leaf, node);
  for (const Neighbour& neighbour : NeighboursOf(node)) {
    const LabNode& other = NodeAt(neighbour.other->node);
    const bool leads_there =
        is_below ? other.role < node.role && IsBelow(leaf, other) : other.role > node.role;
    if (leads_there) hops.push_back({neighbour.other->address, neighbour.own->interface});
  }
  return hops;
}

}  // namespace espalier::lab
