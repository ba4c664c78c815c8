// Measures what steering costs a core: cycles per packet for parsing, looking up, counting,
// rewriting the source port and patching the invariant CRC, on frames in memory, in bursts of 64 as
// a port delivers them. Shows the minimum of several passes over the same frames, which are
// restored outside the measured time. For comparison, shows the cost of touching the same cache
// lines only.
#include <fmt/format.h>
#include <sys/mman.h>
#include <x86intrin.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "agent/dpdk/flows/packet_steering.h"
#include "common/base/check.h"
#include "tests/agent/dpdk/roce_frames.h"

namespace espalier::dpdk {
namespace {

struct Case {
  const char* name;
  std::size_t flows;
  std::size_t payload;
  std::size_t bytes;  // of all frames together; 0: as many frames as fit into 128 KiB
  bool v6 = false;
  bool vlan = false;
  bool mixed = false;  // payloads of any length up to the given one
};

constexpr std::uint16_t kOwnPort = 40'000;
constexpr std::uint32_t kFirstQueuePair = 16;
constexpr std::size_t kMostArrivals = 4096;  // of a table of the usual size

class Arena {
 public:
  explicit Arena(const Case& what) {
    RoceFrame frame{.opcode = 0x07, .payload = Bytes(what.payload, 1)};
    if (what.v6) {
      frame.source = "fd00::1";
      frame.destination = "fd00:1::1";
    }
    if (what.vlan) frame.vlan_types = {0x8100};
    Bytes bytes = Build(frame).bytes;
    const std::size_t stride = (bytes.size() + 63) / 64 * 64;
    const std::size_t count = std::max(what.bytes, std::size_t{128} << 10) / stride;
    // In large pages, like DPDK's frames.
    constexpr std::size_t kPage = std::size_t{2} << 20;
    const std::size_t size = (count * stride + kPage - 1) / kPage * kPage;
    memory_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(kPage, size)));
    (void)madvise(memory_.get(), size, MADV_HUGEPAGE);
    std::mt19937 random(1);
    for (std::size_t i = 0; i < count; ++i) {
      if (what.mixed) {
        frame.payload.resize(4 * (random() % (what.payload / 4 + 1)));
        bytes = Build(frame).bytes;
      }
      std::uint8_t* const at = memory_.get() + i * stride;
      std::copy(bytes.begin(), bytes.end(), at);
      frames_.push_back({at, static_cast<std::uint32_t>(bytes.size())});
      packets_.push_back(ParseRoce(at, static_cast<std::uint32_t>(bytes.size())));
      const auto flow = static_cast<std::uint32_t>(random() % what.flows);
      flows_.push_back(flow);
      Store32(const_cast<std::uint8_t*>(packets_.back().bth()) + 4, Swap32(kFirstQueuePair + flow));
    }
    psns_.resize(what.flows);
  }

  // Begins again with the first packets of the flows.
  void Restart() { std::fill(psns_.begin(), psns_.end(), 0); }

  // Restores the frames as the host sends them, in order.
  void Renew() {
    for (std::size_t i = 0; i < packets_.size(); ++i) {
      Store16(packets_[i].udp, Swap16(kOwnPort));
      std::uint32_t& psn = psns_[flows_[i]];
      Store32(packets_[i].udp + 16, Swap32(psn));
      psn = (psn + 1) & kPsnMask;
    }
  }

  std::span<const Frame> frames() const { return frames_; }

 private:
  struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::uint8_t, Free> memory_;
  std::vector<Frame> frames_;
  std::vector<RocePacket> packets_;
  std::vector<std::uint32_t> flows_;
  std::vector<std::uint32_t> psns_;
};

// Cycles of `work` per frame, the minimum over the passes.
template <typename Work>
double Measure(Arena& arena, Work&& work) {
  const int passes = arena.frames().size() > 10'000 ? 100 : 20'000;
  std::uint64_t least = UINT64_MAX;
  for (int pass = 0; pass < passes; ++pass) {
    arena.Renew();
    _mm_mfence();
    const std::uint64_t begin = __rdtsc();
    for (std::span<const Frame> left = arena.frames(); !left.empty();) {
      const std::size_t count = std::min<std::size_t>(left.size(), 64);
      work(left.first(count));
      left = left.subspan(count);
    }
    unsigned core = 0;
    least = std::min<std::uint64_t>(least, __rdtscp(&core) - begin);
  }
  return static_cast<double>(least) / static_cast<double>(arena.frames().size());
}

// The cache lines that steering a packet needs: its header and its end, both written; an entry of
// the index of flows; and a line of its flow, written. They are prefetched as far ahead as in
// steering.
class Memory {
 public:
  explicit Memory(std::size_t flows)
      : index_(std::bit_ceil(2 * flows)), shift_(64 - std::countr_zero(index_.size())) {
    lines_.resize(flows);
    std::vector<std::uint64_t> order(flows);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
    for (std::uint32_t flow = 0; flow < flows; ++flow) {
      index_[Place(Swap32(kFirstQueuePair + flow))] = order[flow];
    }
  }

  void Touch(std::span<const Frame> burst, std::size_t udp_at) {
    constexpr std::size_t kAhead = 12;
    std::uint64_t ring[32];
    const std::size_t count = burst.size();
    for (std::size_t at = 0; at < count + 3 * kAhead; ++at) {
      if (at < count) {
        __builtin_prefetch(burst[at].data);
        __builtin_prefetch(burst[at].data + udp_at + 20);
      }
      if (const std::size_t i = at - kAhead; i < count) {
        ring[i % 32] = Place(Load32(burst[i].data + udp_at + 12));
        __builtin_prefetch(&index_[ring[i % 32]]);
        __builtin_prefetch(burst[i].data + burst[i].bytes - 4);
      }
      if (const std::size_t i = at - 2 * kAhead; i < count) {
        ring[i % 32] = index_[ring[i % 32]];
        __builtin_prefetch(&lines_[ring[i % 32]]);
      }
      if (const std::size_t i = at - 3 * kAhead; i < count) {
        ++lines_[ring[i % 32]].packets;
        Store16(burst[i].data + udp_at, 0xC000);
        std::uint8_t* const end = burst[i].data + burst[i].bytes - 4;
        Store32(end, Load32(end) ^ 0x1234);
      }
    }
  }

 private:
  struct alignas(64) Line {
    std::uint64_t packets = 0;
  };
  // Consecutive numbers must not be adjacent in memory.
  std::uint64_t Place(std::uint32_t number) const {
    std::uint64_t mixed = number * 0xD6E8'FEB8'6659'FD93;
    mixed ^= mixed >> 32;
    return (mixed * kHashFactor) >> shift_;
  }
  std::vector<std::uint64_t, LargePages<std::uint64_t>> index_;
  std::vector<Line, LargePages<Line>> lines_;
  int shift_;
};

struct Cost {
  double parse;
  double memory;
  double steer;
  double arrive;  // data that arrive
  double look;    // the same while the datapath finds out who is connected to whom
};

// Makes the table know as many arriving streams as it may, each of which is one of the frames'
// flows.
void AddArrivals(StreamTable& streams, FlowKey key, std::size_t flows) {
  const std::size_t count = std::min<std::size_t>(flows, kMostArrivals);
  for (std::size_t i = 0; i < count; ++i) {
    const auto flow = static_cast<std::uint32_t>(i * flows / count);
    key.number = Swap32(kFirstQueuePair + flow) | (key.number & 0xFF);
    ESPALIER_CHECK(streams.AddArrival(key, FlowKind::kRequests, 0));
  }
}

Cost MeasureCase(const Case& what, const IcrcPatch& patch) {
  Arena arena(what);
  DatapathFlowTable table(1 << 17, 1);
  const FlowKey any = KeyOf(ParseRoce(arena.frames()[0].data, arena.frames()[0].bytes));
  std::vector<std::uint32_t> order(what.flows);
  for (std::size_t i = 0; i < what.flows; ++i) order[i] = static_cast<std::uint32_t>(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(2));
  for (const std::uint32_t flow : order) {
    FlowKey key = any;
    key.number = Swap32(kFirstQueuePair + flow) | (any.number & 0xFF);
    const std::optional<std::uint32_t> slot = table.Add(key, FlowKind::kRequests, kOwnPort, 0);
    table.SetPort(*slot, static_cast<std::uint16_t>(0xC000 + flow % 8192));
  }
  table.Publish();
  PacketSteering steering(table, 0, patch);
  std::uint32_t found = 0;
  const double parse = Measure(arena, [&found](std::span<const Frame> burst) {
    for (const Frame& frame : burst) __builtin_prefetch(frame.data);
    for (const Frame& frame : burst) {
      const auto packet = ParseRoce(frame.data, frame.bytes);
      if (packet) found += packet.udp_bytes;
    }
  });
  asm volatile("" ::"r"(found));
  Memory lines(what.flows);
  const std::size_t udp_at = (what.v6 ? 54U : 34U) + (what.vlan ? 4U : 0U);
  const double memory =
      Measure(arena, [&](std::span<const Frame> burst) { lines.Touch(burst, udp_at); });
  arena.Restart();
  const double steer =
      Measure(arena, [&](std::span<const Frame> burst) { steering.Outgoing(burst, 1); });
  ESPALIER_CHECK(steering.counts().rewritten.load() == steering.counts().frames.load());
  ESPALIER_CHECK(!steering.events().Pop());
  const auto arrive = [&](std::span<const Frame> burst) { steering.Incoming(burst, 1); };
  arena.Restart();
  table.LookAtStreams(false);
  const double arrives = Measure(arena, arrive);
  AddArrivals(table.streams(), any, what.flows);
  table.LookAtStreams(true);
  table.Publish();
  arena.Restart();
  const double looks = Measure(arena, arrive);
  return {parse, memory, steer, arrives, looks};
}

double CyclesPerSecond() {
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t cycles = __rdtsc();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(100)) {
  }
  return static_cast<double>(__rdtsc() - cycles) /
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace
}  // namespace espalier::dpdk

int main(int argc, char** argv) {
  using espalier::dpdk::Case;
  const espalier::dpdk::IcrcPatch patch;
  const double hertz = espalier::dpdk::CyclesPerSecond();
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const std::vector<Case> cases = {
      {"IPv4, in cache", 1'000, 64, 0},
      {"VLAN, in cache", 1'000, 64, 0, false, true},
      {"IPv6, in cache", 1'000, 64, 0, true},
      {"IPv4, in cache, 1 flow", 1, 64, 0},
      {"IPv4, in cache, 4 KB", 1'000, 4096, 0},
      {"IPv4, in cache, lengths mixed", 1'000, 64, 0, false, false, true},
      {"IPv4, 8 MiB of 64 B", 100'000, 64, 8 * kMiB},
      {"IPv4, 72 MiB of 1 KB", 100'000, 1024, 72 * kMiB},
      {"VLAN, 72 MiB of 1 KB", 100'000, 1024, 72 * kMiB, false, true},
      {"IPv6, 72 MiB of 1 KB", 100'000, 1024, 72 * kMiB, true},
      {"IPv4, 264 MiB of 4 KB", 100'000, 4096, 264 * kMiB},
      {"IPv4, 264 MiB of 4 KB, 1,000", 1'000, 4096, 264 * kMiB},
  };
  fmt::print("{:<32} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "frames", "flows", "parse",
             "memory", "steer", "Mpps", "arrive", "look");
  for (const Case& what : cases) {
    if (argc > 1 && std::string_view(what.name) != argv[1]) continue;
    const auto [parse, memory, steer, arrive, look] = espalier::dpdk::MeasureCase(what, patch);
    fmt::print("{:<32} {:>8} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f}\n", what.name,
               what.flows, parse, memory, steer, hertz / steer / 1e6, arrive, look);
  }
}
