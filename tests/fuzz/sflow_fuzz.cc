// Arbitrary datagrams, as a switch that is listed sends them: they are parsed and counted.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/base/check.h"
#include "common/base/metrics.h"
#include "common/fabric/builders.h"
#include "controller/telemetry/collector.h"

namespace {

using namespace espalier;

// Spans of a parsed datagram lie within it.
void CheckWithin(std::span<const std::uint8_t> part, std::span<const std::uint8_t> whole) {
  if (part.empty()) return;
  ESPALIER_CHECK(!std::less<>()(part.data(), whole.data()));
  ESPALIER_CHECK(!std::less<>()(whole.data() + whole.size(), part.data() + part.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier::telemetry;
  const std::span<const std::uint8_t> bytes(data, size);
  SflowDatagram datagram;
  if (datagram.Parse(bytes) != nullptr) return 0;
  for (const SflowFlowSample& sample : datagram.flows) {
    ESPALIER_CHECK(sample.rate > 0);
    CheckWithin(sample.header, bytes);
    const auto packet = ReadSampledPacket(sample);
    if (packet) ESPALIER_CHECK(packet->frame_bytes > 0);
  }
  for (const SflowCounterSample& sample : datagram.counters) {
    const auto* const name = reinterpret_cast<const std::uint8_t*>(sample.port_name.data());
    CheckWithin({name, sample.port_name.size()}, bytes);
  }
  const auto topology = *fabric::Topology::Build(*fabric::BuildLeafSpine({}));
  Metrics metrics;
  const fabric::NodeId leaf = *topology.FindNode("leaf0");
  Exporter exporter{.node = leaf, .agent = datagram.agent, .source = datagram.agent};
  std::uint32_t index = 1;
  for (const fabric::DirectedLink out : topology.Outgoing(leaf))
    exporter.ports.push_back({++index, out});
  Collector collector(topology, {exporter}, {.most_flows = 16}, metrics);
  TimePoint now{std::chrono::hours(1)};
  for (int i = 0; i < 3; ++i, now += std::chrono::seconds(3)) {
    collector.HandleDatagram(datagram.agent, bytes, now);
    collector.Tick(now);
    for (const Collector::Load& load : collector.TakeLoads(now)) {
      const auto rate = static_cast<double>(topology.link(load.link.link).rate.value);
      ESPALIER_CHECK(load.bps >= 0 && load.bps <= 1.1 * rate);
    }
  }
  return 0;
}
