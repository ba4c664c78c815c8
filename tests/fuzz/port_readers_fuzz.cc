// Arbitrary answers of a polled switch, in each form: they are read, and become states and loads.
// The first byte chooses the form.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/base/metrics.h"
#include "common/fabric/builders.h"
#include "controller/telemetry/polls/polled_switches.h"

namespace {

using namespace espalier;
using namespace espalier::telemetry;

constexpr std::uint64_t kBound = std::uint64_t{1} << 63;  // of counters

bool IsPrintable(std::string_view text) {
  for (const char c : text) {
    if (c < ' ' || c > '~') return false;
  }
  return true;
}

// Each name occurs once, and numbers are within their bounds.
void CheckReadings(const PortReadings& readings, std::size_t most) {
  ESPALIER_CHECK(readings.ports.size() <= most);
  std::set<std::string> names;
  for (const PortReading& port : readings.ports) {
    ESPALIER_CHECK(names.insert(port.name).second);
    ESPALIER_CHECK(port.speed_bps >= 0);
    ESPALIER_CHECK(port.rx_bytes.value_or(0) < kBound && port.tx_bytes.value_or(0) < kBound);
  }
}

// The ports of leaf0 have names in the topology.
fabric::Topology MakeTopology() {
  fabric::TopologySpec spec = *fabric::BuildLeafSpine({});
  for (fabric::Link& link : spec.links) link.a_port = "to-" + spec.nodes[link.b.Index()].id;
  return *fabric::Topology::Build(spec);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const fabric::Topology topology = MakeTopology();
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const PortReader& reader = PortReaders()[data[0] % PortReaders().size()];
  Metrics metrics;
  TimePoint now{std::chrono::hours(1)};
  const Poll poll{.node = *topology.FindNode("leaf0"),
                  .reader = &reader,
                  .target = {.address = "", .path = "", .argv = {"list"}},
                  .ports = {}};
  PolledSwitches switches(topology, {poll}, {}, metrics, now);
  const auto readings =
      reader.Read(text, [&](std::string_view name) { return switches.Knows(0, name); });
  if (!readings) {
    ESPALIER_CHECK(IsPrintable(readings.error().message));
    return 0;
  }
  CheckReadings(*readings, topology.links().size() + PortLimit::kMostOthers);
  for (int i = 0; i < 3; ++i, now += std::chrono::seconds(5)) {
    PortReadings later = *readings;
    for (PortReading& port : later.ports) {
      if (port.tx_bytes) *port.tx_bytes += static_cast<std::uint64_t>(i) * 1'000'000;
    }
    switches.HandleReadings(0, later, now);
    for (const Collector::Load& load : switches.TakeLoads({}, now)) {
      const auto rate = static_cast<double>(topology.link(load.link.link).rate.value);
      ESPALIER_CHECK(load.bps >= 0 && load.bps <= 1.1 * rate);
    }
  }
  for (const std::string& name : switches.SourceOf(0).unmatched) ESPALIER_CHECK(IsPrintable(name));
  switches.Tick(now + std::chrono::minutes(1));
  ESPALIER_CHECK(switches.links().Due().empty());  // what is unknown is never reported
  return 0;
}
