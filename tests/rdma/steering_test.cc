// All of it: unmodified programs, the shim, an agent for each host, the controller, and the fabric.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/rdma/daemons.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier {
namespace {

using rdma::Await;
using rdma::Daemons;
using rdma::Process;
using rdma::SocketOf;
using ::testing::ContainsRegex;

// ib_write_bw from one host to another, for ever. Few and short writes: soft RoCE fails with many.
class Stream {
 public:
  Stream(int from, int to) : port_(18610 + from) {
    server_ = Start(to, "");
    rdma::Shell(fmt::format("until ss -Hltn sport = :{} | grep -q .; do sleep 0.1; done", port_));
    client_ = Start(from, "127.0.0.1");
  }
  bool Lives() const { return client_->Lives(); }

 private:
  std::unique_ptr<Process> Start(int host, const std::string& server) const {
    const auto address = rdma::RoceAddressOf(host, false);
    return std::make_unique<Process>(
        fmt::format("stream{}", host),
        fmt::format("LD_PRELOAD={} ESPALIER_AGENT_SOCKET={} ESPALIER_VERBS_ANNOUNCE_BYTES=1048576 "
                    "ESPALIER_VERBS_WAIT_MS=60000 ib_write_bw -d {} -x {} -F -t 4 -s 8192 "
                    "--run_infinitely -D 2 -p {} {}",
                    ESPALIER_VERBS_SHIM, SocketOf(host), address.device, address.gid_index, port_,
                    server));
  }

  int port_;
  std::unique_ptr<Process> server_;
  std::unique_ptr<Process> client_;
};

// What passes from the first leaf to each spine.
class Spines {
 public:
  Spines() {
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      captures_.emplace_back(fmt::format("spine{}", spine), "l0");
    }
  }

  // Writes from a host over a spine, and the ports that they came from.
  struct Count {
    int packets = 0;
    std::set<std::uint16_t> ports;
  };
  Count& at(int spine, int host) {
    return counts_[static_cast<std::size_t>(spine) * 2 + static_cast<std::size_t>(host)];
  }
  void Clear() {
    Look();
    counts_ = {};
  }
  void Look() {
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      for (const rdma::Packet& packet : captures_[static_cast<std::size_t>(spine)].Take()) {
        for (int host = 0; host < rdma::kHostsPerLeaf; ++host) {
          if (!packet.IsWrite() || packet.source != rdma::AddressOfHost(host, false)) continue;
          ++at(spine, host).packets;
          at(spine, host).ports.insert(packet.source_port);
        }
      }
    }
  }

 private:
  std::vector<rdma::Capture> captures_;
  std::array<Count, static_cast<std::size_t>(rdma::kSpines) * rdma::kHostsPerLeaf> counts_;
};

TEST(RdmaSteering, LongKeepsProgramsApartAndOffALinkThatFails) {
  constexpr int kEnough = 200;
  const Daemons daemons;
  Spines spines;
  const Stream first(0, 2);
  const Stream second(1, 3);
  const auto packets = [&](int host) {
    return spines.at(0, host).packets + spines.at(1, host).packets;
  };
  Await("both write", [&] {
    spines.Look();
    return packets(0) >= kEnough && packets(1) >= kEnough;
  });
  // Each keeps to one spine, from one port, and not to the same one.
  const int victim = spines.at(0, 0).packets > 0 ? 0 : 1;
  EXPECT_EQ(spines.at(0, 1 - victim).packets, 0);
  EXPECT_EQ(spines.at(1, victim).packets, 0);
  const std::string flows = Daemons::Operator("flows");
  for (int host = 0; host < 2; ++host) {
    const auto& count = spines.at(host == victim ? 0 : 1, host);
    ASSERT_EQ(count.ports.size(), 1U);
    EXPECT_THAT(flows, ContainsRegex(fmt::format("h{} +h{} +ROUTED +spine{} +{} ", host, host + 2,
                                                 host == victim ? 0 : 1, *count.ports.begin())));
  }
  // The controller knows how full their send queues are.
  Await("bytes are outstanding", [] {
    return ::testing::Matches(ContainsRegex("\"outstanding_bytes\": *[1-9]"))(
        Daemons::Operator("flows --json"));
  });
  // The far link of one fails: its source's leaf sees nothing of that.
  spines.Clear();
  Daemons::Operator("fail link leaf1--spine0");
  Await("it moves", [&] {
    spines.Look();
    return spines.at(1, victim).packets >= kEnough;
  });
  const rdma::DeadSpine dead(0);
  spines.Clear();
  Await("both go on", [&] {
    spines.Look();
    return spines.at(1, 0).packets >= kEnough && spines.at(1, 1).packets >= kEnough;
  });
  EXPECT_EQ(spines.at(0, 0).packets + spines.at(0, 1).packets, 0);
  EXPECT_TRUE(first.Lives() && second.Lives());
}

}  // namespace
}  // namespace espalier
