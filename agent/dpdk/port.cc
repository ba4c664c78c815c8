#include "agent/dpdk/port.h"

#include <fmt/format.h>
#include <net/if.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <utility>

namespace espalier::dpdk {
namespace {

constexpr std::uint16_t kDescriptors = 1024;
constexpr unsigned kMbufs = 8191;
constexpr unsigned kCachedMbufs = 256;
// Room for a jumbo frame with its tags in one segment.
constexpr std::uint32_t kFrameBytes = 9728;
// The Ethernet header, four tags and a checksum.
constexpr std::uint32_t kAroundMtu = 14 + 4 * 4 + 4;

Error Refused(const std::string& name, std::string_view what, int status) {
  return {ErrorCode::kUnavailable,
          fmt::format("port {}: {}: {}", name, what, rte_strerror(std::abs(status)))};
}

Result<std::uint16_t> FindPort(const std::string& name) {
  std::uint16_t id = 0;
  if (rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0) return id;
  std::string known;
  for (id = 0; id < RTE_MAX_ETHPORTS; ++id) {
    if (rte_eth_dev_is_valid_port(id) == 0) continue;
    std::array<char, RTE_ETH_NAME_MAX_LEN> other{};
    if (rte_eth_dev_get_name_by_port(id, other.data()) != 0) continue;
    known += known.empty() ? "" : ", ";
    known += other.data();
  }
  return Fail(ErrorCode::kNotFound, fmt::format("DPDK has no port {} (its ports: {})", name,
                                                known.empty() ? "none" : known));
}

Result<rte_eth_dev_info> Describe(std::uint16_t id, const std::string& name) {
  rte_eth_dev_info info{};
  const int status = rte_eth_dev_info_get(id, &info);
  if (status != 0)
    return tl::unexpected<Error>(Refused(name, "cannot read its description", status));
  return info;
}

// Creates the pool of frames in memory of the port's NUMA node. Frames are no larger than the
// device needs, as AF_XDP refuses those that do not fit a page.
Result<rte_mempool*> MakePool(std::uint16_t id, const std::string& name, std::uint16_t max_mtu) {
  const std::string pool_name = fmt::format("frames-{}", id);
  rte_mempool* const known = rte_mempool_lookup(pool_name.c_str());
  if (known != nullptr) return known;
  const std::uint32_t room = RTE_PKTMBUF_HEADROOM + std::min(kFrameBytes, max_mtu + kAroundMtu);
  rte_mempool* const pool =
      rte_pktmbuf_pool_create(pool_name.c_str(), kMbufs, kCachedMbufs, 0,
                              static_cast<std::uint16_t>(room), rte_eth_dev_socket_id(id));
  if (pool == nullptr) {
    return tl::unexpected<Error>(Refused(name, "no memory for frames", rte_errno));
  }
  return pool;
}

Result<void> SetUp(std::uint16_t id, const PortOptions& options) {
  Result<rte_eth_dev_info> info = Describe(id, options.name);
  if (!info) return Propagate(info);
  Result<rte_mempool*> pool = MakePool(id, options.name, info->max_mtu);
  if (!pool) return Propagate(pool);
  rte_eth_conf conf{};
  if (options.queues > 1) {
    // Hashes IP addresses and UDP ports, so that all packets of a flow come to one queue.
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf =
        (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP) & info->flow_type_rss_offloads;
  }
  const auto check = [&options](int status, std::string_view what) -> Result<void> {
    if (status == 0 || status == -ENOTSUP) return {};
    return tl::unexpected<Error>(Refused(options.name, what, status));
  };
  Result<void> done =
      check(rte_eth_dev_configure(id, options.queues, options.queues, &conf), "cannot configure");
  if (done && options.mtu != 0) {
    done = check(rte_eth_dev_set_mtu(id, static_cast<std::uint16_t>(options.mtu)),
                 "cannot set the MTU");
  }
  const auto node = static_cast<unsigned>(rte_eth_dev_socket_id(id));
  for (std::uint16_t queue = 0; done && queue < options.queues; ++queue) {
    done = check(rte_eth_rx_queue_setup(id, queue, kDescriptors, node, nullptr, *pool),
                 "cannot set up a receive queue");
    if (done) {
      done = check(rte_eth_tx_queue_setup(id, queue, kDescriptors, node, nullptr),
                   "cannot set up a send queue");
    }
  }
  if (done) done = check(rte_eth_dev_start(id), "cannot start");
  if (done) done = check(rte_eth_promiscuous_enable(id), "cannot enable promiscuous mode");
  if (done) done = check(rte_eth_allmulticast_enable(id), "cannot receive all multicast frames");
  return done;
}

}  // namespace

Result<void> StartEnvironment(const std::vector<std::string>& arguments) {
  std::vector<std::string> copies = {"espalier-dpdk"};
  copies.insert(copies.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& copy : copies) pointers.push_back(copy.data());
  if (rte_eal_init(static_cast<int>(pointers.size()), pointers.data()) < 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("DPDK does not start: {} (check the field eal)", rte_strerror(rte_errno)));
  }
  return {};
}

Result<std::uint16_t> Port::MaxQueues(const std::string& name) {
  Result<std::uint16_t> id = FindPort(name);
  if (!id) return id;
  Result<rte_eth_dev_info> info = Describe(*id, name);
  if (!info) return Propagate(info);
  return std::min(info->max_rx_queues, info->max_tx_queues);
}

Result<Port> Port::Open(const PortOptions& options) {
  Result<std::uint16_t> id = FindPort(options.name);
  if (!id) return Propagate(id);
  Result<void> done = SetUp(*id, options);
  if (!done) return Propagate(done);
  Result<rte_eth_dev_info> info = Describe(*id, options.name);
  return Port(*id, options.name, info ? info->if_index : 0);
}

Port::Port(Port&& other) noexcept
    : id_(other.id_),
      name_(std::move(other.name_)),
      interface_(other.interface_),
      open_(std::exchange(other.open_, false)) {}

Port::~Port() {
  if (open_) (void)rte_eth_dev_stop(id_);
}

bool Port::IsPresent() const {
  std::array<char, IF_NAMESIZE> name{};
  if (interface_ != 0 && if_indextoname(interface_, name.data()) == nullptr) return false;
  return rte_eth_dev_is_removed(id_) == 0;
}

std::uint64_t Port::Missed() const {
  rte_eth_stats stats{};
  if (rte_eth_stats_get(id_, &stats) != 0) return 0;
  return stats.imissed + stats.ierrors + stats.oerrors;
}

}  // namespace espalier::dpdk
