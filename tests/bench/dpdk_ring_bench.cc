// Measures steering with DPDK's burst functions: frames pass from a ring port to a ring port, in
// turn forwarded unchanged and steered, each in some thousand short rounds of which the best
// counts. Rings pass pointers, so that no device is the limit. Outside the measured time frames go
// back, with their old port and the next PSN of their flow.
#include <fmt/format.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "agent/dpdk/forwarder.h"
#include "agent/dpdk/port.h"
#include "common/base/check.h"
#include "tests/agent/dpdk/roce_frames.h"

namespace espalier::dpdk {
namespace {

constexpr std::uint16_t kBurst = 64;
constexpr std::uint32_t kFlows = 64;
constexpr int kRounds = 5000;
constexpr std::uint16_t kOwnPort = 50'000;

std::uint64_t ForwardPlain(std::uint16_t from, std::uint16_t to) {
  std::array<rte_mbuf*, kBurst> mbufs;
  const std::uint16_t count = rte_eth_rx_burst(from, 0, mbufs.data(), kBurst);
  return rte_eth_tx_burst(to, 0, mbufs.data(), count);
}

// Returns all frames, in the form in which their flows send them next. Used once before each round
// of steering, as gaps in a flow would change the load.
class Renewal {
 public:
  void GoBack(std::uint16_t from, std::uint16_t to) {
    std::array<rte_mbuf*, kBurst> mbufs;
    while (const std::uint16_t count = rte_eth_rx_burst(from, 0, mbufs.data(), kBurst)) {
      for (std::uint16_t i = 0; i < count; ++i) Renew(mbufs[i]);
      ESPALIER_CHECK(rte_eth_tx_burst(to, 0, mbufs.data(), count) == count);
    }
  }

 private:
  void Renew(rte_mbuf* mbuf) {
    const RocePacket packet = ParseRoce(rte_pktmbuf_mtod(mbuf, std::uint8_t*), mbuf->data_len);
    std::uint32_t& psn = psns_[packet.destination_qpn() - 16];
    Store16(packet.udp, Swap16(kOwnPort));
    Store32(packet.udp + 16, Swap32(psn));
    psn = (psn + 1) & kPsnMask;
  }
  std::array<std::uint32_t, kFlows> psns_{};
};

// Puts frames of these flows into the ring from which `port` receives.
void Fill(std::uint16_t port, rte_mempool* pool, std::uint32_t flows, std::uint32_t frames) {
  for (std::uint32_t i = 0; i < frames; ++i) {
    const Bytes bytes = Build({.destination_qpn = 16 + i % flows}).bytes;
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
    ESPALIER_CHECK(mbuf != nullptr);
    char* const data = rte_pktmbuf_append(mbuf, static_cast<std::uint16_t>(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), data);
    ESPALIER_CHECK(rte_eth_tx_burst(port, 0, &mbuf, 1) == 1);
  }
}

template <typename Work>
double FramesPerSecond(unsigned frames, Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  unsigned moved = 0;
  while (moved < frames) moved += static_cast<unsigned>(work());
  return static_cast<double>(moved) /
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A table of flows from one source port, which get another one.
std::unique_ptr<DatapathFlowTable> MakeTable() {
  auto table = std::make_unique<DatapathFlowTable>(kFlows, 1);
  for (std::uint32_t flow = 0; flow < kFlows; ++flow) {
    Bytes bytes = Build({.destination_qpn = 16 + flow}).bytes;
    const FlowKey key = KeyOf(ParseRoce(bytes.data(), static_cast<std::uint32_t>(bytes.size())));
    table->SetPort(*table->Add(key, FlowKind::kRequests, kOwnPort, 0), 60'000);
  }
  table->Publish();
  return table;
}

void Run(unsigned frames, std::uint16_t host, std::uint16_t fabric) {
  const IcrcPatch patch;
  const auto table = MakeTable();
  Forwarder forwarder(*table, 0, patch, {.host = host, .fabric = fabric, .queue = 0});
  Renewal renewal;
  double plain = 0;
  double steered = 0;
  for (int round = 0; round < kRounds; ++round) {
    plain = std::max(plain, FramesPerSecond(frames, [&] { return ForwardPlain(host, fabric); }));
    renewal.GoBack(fabric, host);
    steered =
        std::max(steered, FramesPerSecond(frames, [&] { return forwarder.ForwardToFabric(1); }));
    while (ForwardPlain(fabric, host) != 0) {
    }
  }
  const PacketSteeringCounts& counts = forwarder.steering().counts();
  ESPALIER_CHECK(counts.rewritten.load() == counts.frames.load());
  ESPALIER_CHECK(!forwarder.steering().events().Pop());
  fmt::print("{:>8} {:>8.1f} {:>8.1f} {:>8.2f}\n", frames, plain / 1e6, steered / 1e6,
             steered / plain);
}

}  // namespace
}  // namespace espalier::dpdk

int main() {
  using espalier::dpdk::Port;
  const auto started = espalier::dpdk::StartEnvironment(
      {"-l", "1", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry",
       "--log-level=error", "--vdev=net_ring0", "--vdev=net_ring1"});
  ESPALIER_CHECK(started.has_value());
  const auto host = Port::Open({.name = "net_ring0"});
  const auto fabric = Port::Open({.name = "net_ring1"});
  ESPALIER_CHECK(host && fabric);
  fmt::print("{:>8} {:>8} {:>8} {:>8}  (millions of frames per second)\n", "frames", "plain",
             "steered", "ratio");
  rte_mempool* const pool = rte_mempool_lookup("frames-0");
  for (const std::uint32_t more : {64U, 448U}) {
    espalier::dpdk::Fill(host->id(), pool, espalier::dpdk::kFlows, more);
    espalier::dpdk::Run(rte_mempool_in_use_count(pool), host->id(), fabric->id());
  }
}
