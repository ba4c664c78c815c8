// A tree all-reduce with the controller's job plan over RDMA: every edge uses its planned port and
// takes its planned spine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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

// The ranks, one on each host, each of which makes a call on request.
class Ranks {
 public:
  explicit Ranks(int ranks) : size_(ranks), turn_(ranks + 1) {
    for (int rank = 0; rank < ranks; ++rank) {
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
                            runtime::ValueOf(ReduceOp::kSum, group.rank(), size_, i));
    }
    const auto done = group.Run(CollectiveKind::kAllReduce, input.data(), output.data(), kElements,
                                DataType::kF32, ReduceOp::kSum, program::kNoRoot);
    ASSERT_TRUE(done) << done.error().message;
    for (std::size_t i = 0; i < kElements; ++i) {
      ASSERT_EQ(runtime::ReadElement(DataType::kF32, output.data(), i),
                runtime::ReducedValue(ReduceOp::kSum, size_, i))
          << i;
    }
    if (group.rank() == 0) generation_ = group.GenerationOf(CollectiveKind::kAllReduce);
  }

  const int size_;
  std::barrier<> turn_;
  std::atomic<bool> is_over_ = false;
  std::atomic<std::uint64_t> generation_ = 0;
  std::vector<std::thread> threads_;
};

// A job of one rank on each host, whose daemons run.
class TreeJob {
 public:
  TreeJob(int ranks, const std::string& names)
      : started_(Daemons::Operator(
            fmt::format("job start trees --ranks {} --transport verbs --bytes 262144", names))) {
    rdma::Await("the job has its plan", IsReady);
    ranks_.emplace(ranks);
  }

  // Returns the plan in force after `change`, which causes another one.
  static CollectivePlan PlanAfter(const std::function<void()>& change) {
    const std::string before = ReadPlan().version;
    change();
    rdma::Await("there is another plan", [&] { return IsReady() && ReadPlan().version != before; });
    return ReadPlan();
  }
  // Makes a call by the plan, and checks what passes the wire.
  void ExpectOnTheWire(const CollectivePlan& plan) {
    // The ranks use the newest plan that all of them have from the call after its arrival.
    rdma::Await("the plan is in force", [&] {
      return ranks_->Call(), std::to_string(ranks_->generation()) == plan.version;
    });
    wire_.Clear();
    ranks_->Call();
    wire_.ExpectPlanned(plan);
  }

 private:
  Wire wire_;
  std::string started_;
  std::optional<Ranks> ranks_;
};

TEST(RdmaTreeJob, TakesThePlannedPortsBeforeAndAfterASpineDies) {
  const Daemons daemons;
  TreeJob job(rdma::kHosts, "h0,h1,h2,h3");
  job.ExpectOnTheWire(ReadPlan());

  const rdma::DeadSpine dead(0);
  const rdma::LeavesAvoidSpine avoided(0);
  const CollectivePlan after = TreeJob::PlanAfter([] { Daemons::Operator("fail node spine0"); });
  for (const auto& [connection, via] : after.edges) EXPECT_NE(via, "spine0");
  job.ExpectOnTheWire(after);
}

// The addresses from which the edges of a plan send.
std::set<std::string> SourcesOf(const CollectivePlan& plan) {
  std::set<std::string> sources;
  for (const auto& [connection, via] : plan.edges) sources.insert(std::get<0>(connection));
  return sources;
}

TEST(RdmaTreeJob, UsesBothDevicesOfItsHostsUntilOneIsDown) {
  const auto address = [](int interface) {
    return rdma::AddressOfHost(interface, false).ToString();
  };
  const Daemons daemons("", "", /*nics_per_host=*/2);
  TreeJob job(2, "h0/gpu0,h1/gpu0");
  const CollectivePlan before = ReadPlan();
  EXPECT_THAT(SourcesOf(before),
              testing::ElementsAre(address(0), address(1), address(2), address(3)));
  job.ExpectOnTheWire(before);

  const CollectivePlan after =
      TreeJob::PlanAfter([] { Daemons::Operator("fail link h0/nic1--leaf0 --force"); });
  EXPECT_THAT(SourcesOf(after), testing::Not(testing::Contains(address(1))));
  job.ExpectOnTheWire(after);
}

}  // namespace
}  // namespace espalier
