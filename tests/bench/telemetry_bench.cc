// Samples per second that the collector of sFlow takes on one core, with datagrams of six flow
// samples, from the bytes of a datagram to the table of flows, and from a UDP socket over loopback.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/random.h"
#include "common/fabric/builders.h"
#include "controller/telemetry/collector.h"
#include "controller/telemetry/datagram_socket.h"
#include "tests/controller/telemetry/sflow_datagrams.h"

namespace espalier::telemetry {
namespace {

constexpr int kSamples = 6;  // of a datagram, which fill 1,300 bytes
constexpr std::uint32_t kDatagrams = 65'536;
constexpr std::uint32_t kUptime = 10'000;

// Datagrams of one spine with 32 ports, whose samples are of so many flows in random order.
class Stream {
 public:
  explicit Stream(std::uint32_t flows)
      : topology_(*fabric::Topology::Build(
            *fabric::BuildLeafSpine({.spines = 2, .leaves = 32, .hosts_per_leaf = 2}))),
        spine_{.node = *topology_.FindNode("spine0"),
               .agent = IpAddress::FromV4(0x7F000001),
               .source = IpAddress::FromV4(0x7F000001)} {
    for (const fabric::DirectedLink out : topology_.Outgoing(spine_.node))
      spine_.ports.push_back({static_cast<std::uint32_t>(spine_.ports.size()) + 1, out});
    Random random(1);
    for (std::uint32_t i = 0; i < kDatagrams; ++i) {
      std::vector<std::pair<std::uint32_t, Bytes>> samples;
      for (int k = 0; k < kSamples; ++k) {
        const auto flow = static_cast<std::uint32_t>(random.Below(flows));
        const Bytes header = RoceHeader(0x0A000000 + flow / 16, 0x0A800000 + flow,
                                        static_cast<std::uint16_t>(49'152 + flow % 16'384), flow);
        const auto port = static_cast<std::uint32_t>(flow % spine_.ports.size()) + 1;
        samples.emplace_back(1, FlowSample(port, 4'096, header));
      }
      datagrams_.push_back(
          Datagram({.agent = spine_.agent, .sequence = i + 1, .uptime_ms = kUptime}, samples));
    }
  }
  Collector Make(Metrics& metrics) const { return {topology_, {spine_}, {.seed = 7}, metrics}; }
  const std::vector<Bytes>& datagrams() const { return datagrams_; }
  const IpAddress& address() const { return spine_.source; }

 private:
  fabric::Topology topology_;
  Exporter spine_;
  std::vector<Bytes> datagrams_;
};

void Report(benchmark::State& state, std::uint64_t samples, const Collector& collector) {
  state.SetItemsProcessed(static_cast<std::int64_t>(samples));
  state.counters["flows"] = static_cast<double>(collector.flows().size());
}

// Range: the number of flows. Each datagram counts once, so the collector is replaced after all of
// them.
void BM_FromDatagram(benchmark::State& state) {
  const Stream stream(static_cast<std::uint32_t>(state.range(0)));
  std::uint64_t samples = 0;
  for ([[maybe_unused]] auto _ : state) {
    state.PauseTiming();
    Metrics metrics;
    Collector collector = stream.Make(metrics);
    const TimePoint now{std::chrono::hours(1)};
    state.ResumeTiming();
    for (const Bytes& bytes : stream.datagrams())
      collector.HandleDatagram(stream.address(), bytes, now);
    samples += stream.datagrams().size() * kSamples;
    Report(state, samples, collector);
  }
}
BENCHMARK(BM_FromDatagram)->Arg(1'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

// The sender works in turn with the collector on the same core, and its time does not count.
void BM_FromSocket(benchmark::State& state) {
  const Stream stream(static_cast<std::uint32_t>(state.range(0)));
  auto socket = DatagramSocket::Open("127.0.0.1:0", std::size_t{4} << 20U);
  const int sender = ::socket(AF_INET, SOCK_DGRAM, 0);
  if (!socket || sender < 0) return state.SkipWithError("no UDP socket");
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string& address = socket->address();
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  constexpr std::size_t kTurn = 64;  // fits into any buffer
  std::uint64_t samples = 0;
  std::uint64_t sent = 0;
  for ([[maybe_unused]] auto _ : state) {
    Metrics metrics;
    Collector collector = stream.Make(metrics);
    const TimePoint now{std::chrono::hours(1)};
    std::chrono::duration<double> time{};
    for (std::size_t i = 0; i < stream.datagrams().size(); i += kTurn) {
      for (std::size_t k = i; k < i + kTurn; ++k) {
        const Bytes& bytes = stream.datagrams()[k];
        ::sendto(sender, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                 sizeof to);
      }
      const auto begin = std::chrono::steady_clock::now();
      socket->Read(2, [&](const IpAddress& source, std::span<const std::uint8_t> bytes) {
        collector.HandleDatagram(source, bytes, now);
        samples += kSamples;
      });
      time += std::chrono::steady_clock::now() - begin;
    }
    state.SetIterationTime(time.count());
    sent += stream.datagrams().size() * kSamples;
    Report(state, samples, collector);
  }
  state.counters["lost"] = static_cast<double>(sent - samples);
  ::close(sender);
}
BENCHMARK(BM_FromSocket)->Arg(1'000)->Arg(100'000)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace espalier::telemetry

BENCHMARK_MAIN();
