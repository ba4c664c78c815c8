// A tree all-reduce with the controller's job plan over RDMA: every edge uses its planned port and
// takes its planned spine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "collective/client/job_group.h"
#include "common/files/json.h"
#include "tests/collective/runtime/elements.h"
#include "tests/rdma/daemons.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier {
namespace {

using client::JobGroup;
using program::CollectiveKind;
using rdma::Daemons;
using reduce::DataType;
using reduce::ReduceOp;

constexpr int kRanks = rdma::kHosts;
constexpr std::size_t kElements = (256 << 10) / sizeof(float);

// One direction of a connection: source, destination and source port.
using Connection = std::tuple<std::string, std::string, std::uint16_t>;

// The plan in force, with the spine of each edge; "" within a leaf (port 0: any).
struct CollectivePlan {
  std::string version;
  std::map<Connection, std::string> edges;
};

std::string TextOf(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const value = object.Find(key);
  return value == nullptr ? "" : value->text;
}

CollectivePlan ReadPlan() {
  const auto answer = io::ParseJson(Daemons::Get("/api/v1/forests/plan?job=trees"), "the plan");
  EXPECT_TRUE(answer);
  CollectivePlan plan = {.version = TextOf(*answer, "plan"), .edges = {}};
  for (const io::JsonValue& edge : answer->Find("edges")->items) {
    EXPECT_EQ(TextOf(edge, "destination_port"), "4791");
    plan.edges[{TextOf(edge, "source_address"), TextOf(edge, "destination_address"),
                static_cast<std::uint16_t>(std::stoi(TextOf(edge, "source_port")))}] =
        TextOf(edge, "via");
  }
  return plan;
}

bool IsReady() {
  return Daemons::Operator("job list --json").find("\"READY\"") != std::string::npos;
}

// Captures what the hosts send and what the spines forward from both leaves.
class Wire {
 public:
  Wire() {
    for (int host = 0; host < rdma::kHosts; ++host) {
      hosts_.emplace_back("", fmt::format("h{}", host));
    }
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      for (const char* leaf : {"l0", "l1"}) {
        spines_.emplace_back(fmt::format("spine{}", spine),
                             rdma::Capture(fmt::format("spine{}", spine), leaf));
      }
    }
  }

  // Edges are recognised by writes of more than one packet, unlike the small messages by which
  // ranks agree. Every packet of such a queue pair comes from one port, every port belongs to an
  // edge, and every edge has packets.
  void ExpectPlanned(const CollectivePlan& plan) {
    using Pair = std::tuple<std::string, std::string, std::uint32_t>;
    std::map<Pair, std::set<std::uint16_t>> ports;
    std::set<Pair> edges;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      const IpAddress own = rdma::AddressOfHost(static_cast<int>(host), false);
      for (const rdma::Packet& packet : hosts_[host].Take()) {
        if (packet.source != own) continue;
        const Pair pair = {packet.source.ToString(), packet.destination.ToString(),
                           packet.remote_number};
        ports[pair].insert(packet.source_port);
        if (packet.opcode == kFirstOfWrite) edges.insert(pair);
      }
    }
    std::set<Connection> used;
    for (const Pair& pair : edges) {
      EXPECT_THAT(ports[pair], ::testing::SizeIs(1)) << std::get<0>(pair) << std::get<1>(pair);
      used.emplace(std::get<0>(pair), std::get<1>(pair), *ports[pair].begin());
    }
    ExpectPlannedSpines(plan, used);
  }
  void Clear() {
    for (rdma::Capture& capture : hosts_) capture.Take();
    for (auto& [spine, capture] : spines_) capture.Take();
  }

 private:
  static constexpr std::uint8_t kFirstOfWrite = 0x06;

  void ExpectPlannedSpines(const CollectivePlan& plan, const std::set<Connection>& used) {
    std::map<Connection, std::set<std::string>> taken;
    for (auto& [spine, capture] : spines_) {
      for (const rdma::Packet& packet : capture.Take()) {
        if (!packet.IsWrite()) continue;
        taken[{packet.source.ToString(), packet.destination.ToString(), packet.source_port}].insert(
            spine);
      }
    }
    int crossing = 0;
    for (const auto& [connection, via] : plan.edges) {
      if (via.empty()) continue;
      ++crossing;
      EXPECT_TRUE(used.contains(connection))
          << std::get<0>(connection) << " " << std::get<1>(connection) << " port "
          << std::get<2>(connection);
      EXPECT_THAT(taken[connection], ::testing::ElementsAre(via));
    }
    EXPECT_GE(crossing, 2);
    for (const Connection& connection : used) {
      const bool crosses = taken.contains(connection);
      EXPECT_EQ(crosses, plan.edges.contains(connection)) << std::get<2>(connection);
    }
  }

  std::vector<rdma::Capture> hosts_;
  std::vector<std::pair<std::string, rdma::Capture>> spines_;
};

// The ranks, each of which makes a call on request.
class Ranks {
 public:
  Ranks() {
    for (int rank = 0; rank < kRanks; ++rank) {
      threads_.emplace_back([this, rank] { Run(rank); });
    }
    turn_.arrive_and_wait();
  }
  ~Ranks() {
    is_over_ = true;
    turn_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void Call() {
    turn_.arrive_and_wait();
    turn_.arrive_and_wait();
  }
  // The generation of the plan of the last call.
  std::uint64_t generation() const { return generation_; }

 private:
  void Run(int rank) {
    auto group = JobGroup::Join({.agent = rdma::SocketOf(rank),
                                 .job = "trees",
                                 .rank = rank,
                                 .timeout = std::chrono::minutes(2)});
    EXPECT_TRUE(group) << group.error().message;
    turn_.arrive_and_wait();
    while (true) {
      turn_.arrive_and_wait();
      if (is_over_) return;
      if (group) AllReduce(**group);
      turn_.arrive_and_wait();
    }
  }
  void AllReduce(JobGroup& group) {
    std::vector<std::byte> input(kElements * sizeof(float));
    std::vector<std::byte> output(input.size());
    for (std::size_t i = 0; i < kElements; ++i) {
      runtime::WriteElement(DataType::kF32, input.data(), i,
                            runtime::ValueOf(ReduceOp::kSum, group.rank(), kRanks, i));
    }
    const auto done = group.Run(CollectiveKind::kAllReduce, input.data(), output.data(), kElements,
                                DataType::kF32, ReduceOp::kSum, program::kNoRoot);
    ASSERT_TRUE(done) << done.error().message;
    for (std::size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(runtime::ReadElement(DataType::kF32, output.data(), i),
                runtime::ReducedValue(ReduceOp::kSum, kRanks, i))
          << i;
    }
    if (group.rank() == 0) generation_ = group.GenerationOf(CollectiveKind::kAllReduce);
  }

  std::barrier<> turn_{kRanks + 1};
  std::atomic<bool> is_over_ = false;
  std::atomic<std::uint64_t> generation_ = 0;
  std::vector<std::thread> threads_;
};

TEST(RdmaTreeJob, TakesThePlannedPortsBeforeAndAfterASpineDies) {
  const Daemons daemons;
  Wire wire;
  Daemons::Operator("job start trees --ranks h0,h1,h2,h3 --transport verbs --bytes 262144");
  rdma::Await("the job has its plan", IsReady);
  Ranks ranks;
  // The ranks use the newest plan that all of them have from the call after its arrival.
  const auto call_by = [&](const std::string& version) {
    rdma::Await("the plan is in force",
                [&] { return ranks.Call(), std::to_string(ranks.generation()) == version; });
    wire.Clear();
    ranks.Call();
  };
  const CollectivePlan before = ReadPlan();
  call_by(before.version);
  wire.ExpectPlanned(before);

  const rdma::DeadSpine dead(0);
  const rdma::LeavesAvoidSpine avoided(0);
  Daemons::Operator("fail node spine0");
  rdma::Await("there is another plan",
              [&] { return IsReady() && ReadPlan().version != before.version; });
  const CollectivePlan after = ReadPlan();
  for (const auto& [connection, via] : after.edges) EXPECT_NE(via, "spine0");
  call_by(after.version);
  wire.ExpectPlanned(after);
}

}  // namespace
}  // namespace espalier
