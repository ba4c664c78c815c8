#include "agent/dpdk/forwarder.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include <array>
#include <thread>

namespace espalier::dpdk {
namespace {

constexpr int kSendTries = 64;

// Returns the frame's bytes; none for a frame in several segments, which is forwarded unchanged. A
// VLAN tag that the port has stripped is inserted again.
Frame FrameOf(rte_mbuf*& mbuf) {
  if ((mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0) [[unlikely]]
    (void)rte_vlan_insert(&mbuf);
  return {rte_pktmbuf_mtod(mbuf, std::uint8_t*),
          mbuf->nb_segs == 1 ? std::uint32_t{mbuf->data_len} : 0U};
}

template <std::size_t kSize>
void Describe(std::array<rte_mbuf*, kSize>& mbufs, std::uint16_t count,
              std::array<Frame, kSize>& frames) {
  for (std::uint16_t i = 0; i < count; ++i) __builtin_prefetch(mbufs[i]);
  for (std::uint16_t i = 0; i < count; ++i) frames[i] = FrameOf(mbufs[i]);
}

// Sends frames; returns how many were dropped.
std::uint16_t Send(std::uint16_t port, std::uint16_t queue, rte_mbuf** mbufs, std::uint16_t count) {
  std::uint16_t sent = 0;
  for (int tries = 0; sent < count && tries < kSendTries; ++tries) {
    sent = static_cast<std::uint16_t>(
        sent +
        rte_eth_tx_burst(port, queue, mbufs + sent, static_cast<std::uint16_t>(count - sent)));
  }
  for (std::uint16_t i = sent; i < count; ++i) rte_pktmbuf_free(mbufs[i]);
  return static_cast<std::uint16_t>(count - sent);
}

}  // namespace

std::uint32_t Forwarder::ForwardToFabric(std::uint32_t now_us) {
  std::array<rte_mbuf*, kBurst> mbufs;
  std::array<Frame, kBurst> frames;
  const std::uint16_t count = rte_eth_rx_burst(ports_.host, ports_.queue, mbufs.data(), kBurst);
  Describe(mbufs, count, frames);
  // Also an empty burst tells the table that the previous burst has ended.
  steering_.Outgoing({frames.data(), count}, now_us);
  if (count == 0) return 0;
  dropped_.fetch_add(Send(ports_.fabric, ports_.queue, mbufs.data(), count),
                     std::memory_order_relaxed);
  return count;
}

std::uint32_t Forwarder::ForwardToHost(std::uint32_t now_us) {
  std::array<rte_mbuf*, kBurst> mbufs;
  std::array<Frame, kBurst> frames;
  const std::uint16_t count = rte_eth_rx_burst(ports_.fabric, ports_.queue, mbufs.data(), kBurst);
  if (count == 0) return 0;
  Describe(mbufs, count, frames);
  steering_.Incoming({frames.data(), count}, now_us);
  dropped_.fetch_add(Send(ports_.host, ports_.queue, mbufs.data(), count),
                     std::memory_order_relaxed);
  return count;
}

void Forwarder::Run(const std::atomic<bool>& stop, Duration idle_sleep) {
  const std::uint64_t cycles_per_us = std::max<std::uint64_t>(1, rte_get_tsc_hz() / 1'000'000);
  while (!stop.load(std::memory_order_relaxed)) {
    const auto now_us = static_cast<std::uint32_t>(rte_rdtsc() / cycles_per_us);
    const std::uint32_t moved = ForwardToFabric(now_us) + ForwardToHost(now_us);
    if (moved == 0 && idle_sleep > Duration::zero()) std::this_thread::sleep_for(idle_sleep);
  }
}

}  // namespace espalier::dpdk
