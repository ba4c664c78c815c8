#include "common/fabric/builders.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <utility>

namespace espalier::fabric {
namespace {

constexpr std::int64_t kMaxTierNodes = 65'536;
constexpr std::int64_t kMaxLinks = 4'194'304;
constexpr std::int64_t kInnerRateRatio = 9;  // of a GPU's links within its box and to its NIC
constexpr int kMaxLabCount = 128;  // limit of leaves, spines and hosts per leaf in lab addresses

constexpr std::uint32_t kNicAddresses = 10U << 24;                      // 10.0.0.0/8
constexpr std::uint32_t kFabricAddresses = (172U << 24) | (16U << 16);  // 172.16.0.0/12
constexpr std::uint32_t kFabricAddressCount = std::uint32_t{1} << (32 - 12);

struct Count {
  std::string_view name;
  std::int64_t value;
  std::int64_t least = 1;
};

Result<void> CheckCounts(std::initializer_list<Count> counts, std::int64_t links) {
  for (const Count& count : counts) {
    if (count.value < count.least || count.value > kMaxTierNodes) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} {} are out of range (give {} to {})", count.value, count.name,
                              count.least, kMaxTierNodes));
    }
  }
  if (links > kMaxLinks) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the fabric would have {} links (the limit is {})", links, kMaxLinks));
  }
  return {};
}

// Builds nodes and links and assigns the default addresses.
class Builder {
 public:
  explicit Builder(std::string name) { spec_.name = std::move(name); }

  NodeId Add(std::string id, NodeKind kind, std::string host) {
    Node& node = spec_.nodes.emplace_back();
    node.id = std::move(id);
    node.kind = kind;
    node.host = std::move(host);
    return NodeId(static_cast<std::int32_t>(spec_.nodes.size() - 1));
  }

  // Adds a host with a switch inside, `rails` GPUs, and a NIC for each of them; returns the NICs.
  std::vector<NodeId> AddBox(const std::string& host, int rails, int gpus, BitsPerSecond nic_rate,
                             BitsPerSecond inner_rate) {
    std::vector<NodeId> nics;
    const NodeId inner = Add(host + "/nvswitch", NodeKind::kSwitch, host);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const NodeId compute = Add(fmt::format("{}/gpu{}", host, gpu), NodeKind::kCompute, host);
      for (int own = 0; own < rails / gpus; ++own) {
        nics.push_back(Add(fmt::format("{}/nic{}", host, nics.size()), NodeKind::kNic, host));
      }
      AddLink(compute, inner, inner_rate);
      for (auto nic = nics.end() - rails / gpus; nic != nics.end(); ++nic) {
        AddLink(compute, *nic, nic_rate);
      }
    }
    return nics;
  }

  // Adds the hosts of this many leaves, and returns their NICs by leaf and then by place. With one
  // rail, a host is one COMPUTE and its own NIC.
  std::vector<NodeId> AddHosts(std::int64_t leaves, std::int64_t per_leaf, int rails, int gpus,
                               BitsPerSecond rate) {
    std::vector<NodeId> nics(static_cast<std::size_t>(leaves * per_leaf));
    for (std::int64_t h = 0; h < leaves / rails * per_leaf; ++h) {
      const std::string id = fmt::format("h{}", h);
      const std::vector<NodeId> own =
          rails == 1 ? std::vector{Add(id, NodeKind::kCompute, id)}
                     : AddBox(id, rails, gpus, rate, BitsPerSecond{kInnerRateRatio * rate.value});
      std::int64_t leaf = h / per_leaf * rails;
      for (const NodeId nic : own) {
        nics[static_cast<std::size_t>(leaf++ * per_leaf + h % per_leaf)] = nic;
      }
    }
    return nics;
  }

  // Links a host to one of its leaves, with these addresses of the link's ends.
  void AddUplink(NodeId nic, NodeId leaf_id, BitsPerSecond rate, IpAddress own, IpAddress of_leaf) {
    Link& link = AddLink(nic, leaf_id, rate);
    link.a_address = own;
    link.b_address = of_leaf;
  }
  void SetHashedUplink(NodeId nic, IpAddress address) {
    spec_.nodes[nic.Index()].addresses = {address};
    spec_.nodes[nic.Index()].uplink = UplinkChoice::kHash;
  }
  IpAddress NextNicAddress() { return IpAddress::FromV4(kNicAddresses + 2 * nics_++ + 1); }

  // Adds `count` switches, numbered from 0.
  std::vector<NodeId> AddTier(std::string_view tier, std::int64_t count, SwitchRole role) {
    std::vector<NodeId> ids;
    for (std::int64_t i = 0; i < count; ++i) {
      ids.push_back(Add(fmt::format("{}{}", tier, i), NodeKind::kSwitch, ""));
      spec_.nodes.back().role = role;
    }
    return ids;
  }

  Link& AddLink(NodeId a, NodeId b, BitsPerSecond rate) {
    Link& link = spec_.links.emplace_back();
    link.id = fmt::format("{}--{}", IdOf(a), IdOf(b));
    link.a = a;
    link.b = b;
    link.rate = rate;
    return link;
  }

  // Links a NIC to its leaf and gives it the address of the link's end a.
  void AttachNic(NodeId nic, NodeId leaf, BitsPerSecond rate, IpAddress address,
                 IpAddress leaf_address) {
    spec_.nodes[nic.Index()].addresses = {address};
    Link& link = AddLink(nic, leaf, rate);
    link.a_address = address;
    link.b_address = leaf_address;
  }

  void AttachNic(NodeId nic, NodeId leaf, BitsPerSecond rate) {
    const std::uint32_t even = kNicAddresses + 2 * nics_++;
    AttachNic(nic, leaf, rate, IpAddress::FromV4(even + 1), IpAddress::FromV4(even));
  }

  void JoinSwitches(NodeId lower, NodeId upper, BitsPerSecond rate) {
    Link& link = AddLink(lower, upper, rate);
    const std::uint32_t offset = 2 * switch_links_++;
    if (offset + 1 >= kFabricAddressCount) return;
    link.a_address = IpAddress::FromV4(kFabricAddresses + offset);
    link.b_address = IpAddress::FromV4(kFabricAddresses + offset + 1);
  }

  TopologySpec Take() { return std::move(spec_); }

 private:
  const std::string& IdOf(NodeId id) const { return spec_.nodes[id.Index()].id; }

  TopologySpec spec_;
  std::uint32_t nics_ = 0;
  std::uint32_t switch_links_ = 0;
};

IpAddress LabHostAddress(int leaf, int host, bool host_end) {
  return IpAddress::FromV4(kNicAddresses | static_cast<std::uint32_t>(leaf) << 16 |
                           static_cast<std::uint32_t>(host) << 8 | (host_end ? 1U : 0U));
}

// Of the link of a host with several uplinks.
IpAddress LabHostUplinkAddress(int leaf, int host, bool host_end) {
  return IpAddress::FromV4(kNicAddresses | static_cast<std::uint32_t>(leaf) << 16 |
                           static_cast<std::uint32_t>(host) << 8 | (host_end ? 3U : 2U));
}

IpAddress LabUplinkAddress(int leaf, int spine, bool spine_end) {
  return IpAddress::FromV4(kFabricAddresses | static_cast<std::uint32_t>(leaf) << 8 |
                           static_cast<std::uint32_t>(2 * spine + (spine_end ? 1 : 0)));
}

bool HasLabShape(const LeafSpineOptions& options) {
  return std::max({options.spines, options.leaves, options.hosts_per_leaf}) <= kMaxLabCount;
}

Result<void> CheckRails(int rails, int leaves) {
  if (rails >= 1 && leaves % rails == 0) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} leaves cannot be divided into groups of {} rails (give a multiple)",
                          leaves, rails));
}

Result<void> CheckRates(std::initializer_list<BitsPerSecond> rates) {
  for (const BitsPerSecond rate : rates) {
    if (rate.value <= 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "a bandwidth is not positive (give more than 0 Gbit/s)");
    }
  }
  return {};
}

Result<void> CheckLeafSpine(const LeafSpineOptions& options) {
  const std::int64_t ports = std::int64_t{options.leaves} * options.hosts_per_leaf;
  const std::int64_t links = ports + std::int64_t{options.leaves} * options.spines;
  if (auto ok = CheckCounts({{"spines", options.spines},
                             {"leaves", options.leaves},
                             {"hosts per leaf", options.hosts_per_leaf},
                             {"hosts", ports}},
                            links);
      !ok) {
    return Propagate(ok);
  }
  if (auto ok = CheckRates({options.host_rate, options.fabric_rate}); !ok) return Propagate(ok);
  const int rails = options.rails;
  const int gpus = options.gpus;
  if (auto ok = CheckRails(rails, options.leaves); !ok) return Propagate(ok);
  if (gpus < 0 || gpus > rails || (gpus != 0 && rails % gpus != 0)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} rails cannot be divided among {} GPUs (give a multiple)", rails, gpus));
  }
  const int uplinks = options.uplinks;
  if (uplinks < 1 || options.leaves % uplinks != 0 || (uplinks > 1 && rails > 1)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} leaves cannot be divided into groups of {} uplinks of hosts with {} "
                    "rails (give a multiple, and one rail)",
                    options.leaves, uplinks, rails));
  }
  const int lanes = std::max(rails, uplinks);
  if (options.planes < 1 || lanes % options.planes != 0 || options.spines % options.planes != 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} {} and {} spines cannot be divided into {} planes (give multiples)", lanes,
                    uplinks > 1 ? "uplinks" : "rails", options.spines, options.planes));
  }
  return {};
}

// Links the hosts of leaf-spine fabrics to their leaves.
void AttachHosts(Builder& builder, const LeafSpineOptions& options, std::span<const NodeId> hosts,
                 std::span<const NodeId> leaves) {
  const bool lab = HasLabShape(options);
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const int leaf = static_cast<int>(h) / options.hosts_per_leaf * options.uplinks;
    const int place = static_cast<int>(h) % options.hosts_per_leaf;
    const NodeId leaf_id = leaves[static_cast<std::size_t>(leaf)];
    if (options.uplinks > 1) {
      builder.SetHashedUplink(hosts[h],
                              lab ? LabHostAddress(leaf, place, true) : builder.NextNicAddress());
      for (int k = leaf; k < leaf + options.uplinks; ++k) {
        const IpAddress own = lab ? LabHostUplinkAddress(k, place, true) : IpAddress();
        const IpAddress of_leaf = lab ? LabHostUplinkAddress(k, place, false) : IpAddress();
        builder.AddUplink(hosts[h], leaves[static_cast<std::size_t>(k)], options.host_rate, own,
                          of_leaf);
      }
    } else if (lab) {
      builder.AttachNic(hosts[h], leaf_id, options.host_rate, LabHostAddress(leaf, place, true),
                        LabHostAddress(leaf, place, false));
    } else {
      builder.AttachNic(hosts[h], leaf_id, options.host_rate);
    }
  }
}

}  // namespace

Result<TopologySpec> BuildLeafSpine(const LeafSpineOptions& options) {
  if (auto ok = CheckLeafSpine(options); !ok) return Propagate(ok);
  const auto [spines, leaves, hosts_per_leaf, host_rate, fabric_rate, rails, planes, gpus,
              uplinks] = options;
  Builder builder(fmt::format("leaf-spine-{}x{}x{}", spines, leaves, hosts_per_leaf));
  const std::vector<NodeId> host_ids = builder.AddHosts(leaves / uplinks, hosts_per_leaf, rails,
                                                        gpus == 0 ? rails : gpus, host_rate);
  const auto leaf_ids = builder.AddTier("leaf", leaves, SwitchRole::kLeaf);
  const auto spine_ids = builder.AddTier("spine", spines, SwitchRole::kSpine);
  AttachHosts(builder, options, host_ids, leaf_ids);
  const bool lab = HasLabShape(options);
  const int lanes = std::max(rails, uplinks);
  for (int leaf = 0; leaf < leaves; ++leaf) {
    const int plane = leaf % lanes * planes / lanes;
    const int per_plane = spines / planes;
    for (int spine = plane * per_plane; spine < (plane + 1) * per_plane; ++spine) {
      const NodeId leaf_id = leaf_ids[static_cast<std::size_t>(leaf)];
      const NodeId spine_id = spine_ids[static_cast<std::size_t>(spine)];
      if (lab) {
        Link& link = builder.AddLink(leaf_id, spine_id, fabric_rate);
        link.a_address = LabUplinkAddress(leaf, spine, false);
        link.b_address = LabUplinkAddress(leaf, spine, true);
      } else {
        builder.JoinSwitches(leaf_id, spine_id, fabric_rate);
      }
    }
  }
  return builder.Take();
}

Result<TopologySpec> BuildFatTree(const FatTreeOptions& options) {
  const int k = options.k;
  if (k % 2 != 0) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("k is {} (give an even number)", k));
  }
  // Checks k before its cube is computed, which could overflow.
  if (auto ok = CheckCounts({{"ports per switch", k, 2}}, 0); !ok) return Propagate(ok);
  const std::int64_t half = k / 2;
  const std::int64_t host_count = half * half * k;
  if (auto ok = CheckCounts({{"hosts", host_count}}, 3 * host_count); !ok) return Propagate(ok);
  const int per_pod = k / 2;
  Result<TopologySpec> spec = BuildPods({.pods = k,
                                         .leaves_per_pod = per_pod,
                                         .aggs_per_pod = per_pod,
                                         .cores = per_pod * per_pod,
                                         .hosts_per_leaf = per_pod,
                                         .host_rate = options.host_rate,
                                         .fabric_rate = options.fabric_rate});
  if (spec) spec->name = fmt::format("fat-tree-k{}", k);
  return spec;
}

Result<TopologySpec> BuildPods(const PodOptions& options) {
  const auto [pods, leaves_per_pod, aggs_per_pod, cores, hosts_per_leaf, host_rate, fabric_rate,
              rails] = options;
  if (auto ok = CheckCounts({{"pods", pods},
                             {"leaves per pod", leaves_per_pod},
                             {"aggregation switches per pod", aggs_per_pod},
                             {"cores", cores},
                             {"hosts per leaf", hosts_per_leaf}},
                            0);
      !ok) {
    return Propagate(ok);
  }
  // Each count is at most 2^16 here, so that products of two cannot overflow.
  const std::int64_t leaves = std::int64_t{pods} * leaves_per_pod;
  const std::int64_t aggs = std::int64_t{pods} * aggs_per_pod;
  if (auto ok = CheckCounts({{"leaves", leaves}, {"aggregation switches", aggs}}, 0); !ok) {
    return Propagate(ok);
  }
  const std::int64_t hosts = leaves * hosts_per_leaf;
  const std::int64_t links = hosts + leaves * aggs_per_pod + std::int64_t{pods} * cores;
  if (auto ok = CheckCounts({{"hosts", hosts}}, links); !ok) return Propagate(ok);
  if (cores % aggs_per_pod != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} cores cannot be shared out among the planes of {} aggregation "
                            "switches (give a multiple)",
                            cores, aggs_per_pod));
  }
  if (auto ok = CheckRates({host_rate, fabric_rate}); !ok) return Propagate(ok);
  if (auto ok = CheckRails(rails, leaves_per_pod); !ok) return Propagate(ok);

  Builder builder(fmt::format("pods-{}x{}x{}x{}x{}", pods, leaves_per_pod, aggs_per_pod, cores,
                              hosts_per_leaf));
  const std::vector<NodeId> host_ids =
      builder.AddHosts(leaves, hosts_per_leaf, rails, rails, host_rate);
  const auto leaf_ids = builder.AddTier("leaf", leaves, SwitchRole::kLeaf);
  const auto agg_ids = builder.AddTier("agg", aggs, SwitchRole::kSpine);
  const auto core_ids = builder.AddTier("core", cores, SwitchRole::kCore);
  const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
  for (std::int64_t h = 0; h < hosts; ++h) {
    builder.AttachNic(host_ids[at(h)], leaf_ids[at(h / hosts_per_leaf)], host_rate);
  }
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    const std::int64_t pod = leaf / leaves_per_pod;
    for (std::int64_t a = 0; a < aggs_per_pod; ++a) {
      builder.JoinSwitches(leaf_ids[at(leaf)], agg_ids[at(pod * aggs_per_pod + a)], fabric_rate);
    }
  }
  const std::int64_t plane_cores = cores / aggs_per_pod;
  for (std::int64_t agg = 0; agg < aggs; ++agg) {
    const std::int64_t first = agg % aggs_per_pod * plane_cores;
    for (std::int64_t c = 0; c < plane_cores; ++c) {
      builder.JoinSwitches(agg_ids[at(agg)], core_ids[at(first + c)], fabric_rate);
    }
  }
  return builder.Take();
}

Result<TopologySpec> BuildRails(const RailOptions& options) {
  const auto [boxes, rails, spines, nic_rate, fabric_rate, nvlink_rate] = options;
  const std::int64_t gpus = std::int64_t{boxes} * rails;
  if (auto ok =
          CheckCounts({{"boxes", boxes}, {"rails", rails}, {"spines", spines, 0}, {"GPUs", gpus}},
                      3 * gpus + std::int64_t{rails} * spines);
      !ok) {
    return Propagate(ok);
  }
  if (auto ok = CheckRates({nic_rate, fabric_rate, nvlink_rate}); !ok) return Propagate(ok);

  Builder builder(fmt::format("rails-{}x{}x{}", boxes, rails, spines));
  std::vector<NodeId> nics;  // by box, then rail
  for (int b = 0; b < boxes; ++b) {
    const auto own = builder.AddBox(fmt::format("box{}", b), rails, rails, nic_rate, nvlink_rate);
    nics.insert(nics.end(), own.begin(), own.end());
  }
  const auto leaves = builder.AddTier("leaf", rails, SwitchRole::kLeaf);
  const auto spine_ids = builder.AddTier("spine", spines, SwitchRole::kSpine);
  for (std::size_t n = 0; n < nics.size(); ++n) {
    builder.AttachNic(nics[n], leaves[n % leaves.size()], nic_rate);
  }
  for (const NodeId leaf : leaves) {
    for (const NodeId spine : spine_ids) builder.JoinSwitches(leaf, spine, fabric_rate);
  }
  return builder.Take();
}

}  // namespace espalier::fabric
