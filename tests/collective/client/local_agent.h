#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/local/local_server.h"
#include "agent/local/rank_plan_protocol.h"
#include "agent/local/rank_plan_server.h"
#include "collective/algorithms/algorithm.h"
#include "collective/program/program_bytes.h"
#include "tests/agent/manual_loop.h"

namespace espalier {

inline constexpr int kRanks = 3;
inline constexpr const char* kJob = "train";

inline std::uint16_t ListenPort(int rank) { return static_cast<std::uint16_t>(2'000 + rank); }
inline std::uint16_t SourcePort(int plan, int rank, int peer) {
  return static_cast<std::uint16_t>(20'000 + (plan * kRanks + rank) * kRanks + peer);
}

inline std::string RingBytes(int ranks) {
  const auto ring = algorithms::MakeAlgorithm("allreduce-ring-chunked", {.ranks = ranks});
  return program::EncodeProgram(*ring);
}

// The part of an agent that ranks see.
class LocalAgent {
 public:
  explicit LocalAgent(const std::string& socket) {
    auto server = agent::RankPlanServer::Listen(
        loop_, {.path = socket + agent::kPlanSocketSuffix, .report_burst = 1'000'000}, metrics_);
    EXPECT_TRUE(server.has_value());
    server_ = std::move(*server);
    auto flows = agent::LocalServer::Listen(
        loop_, {.path = socket, .has_flows = [](const IpAddress&) { return true; }}, metrics_);
    EXPECT_TRUE(flows.has_value());
    flows_ = std::move(*flows);
    thread_ = std::thread([this] { Serve(); });
  }
  ~LocalAgent() {
    is_over_ = true;
    thread_.join();
  }
  // The calls that ranks have reported.
  int reports() const { return reports_; }
  // The flows that programs have announced.
  std::vector<agent::FlowSample> Flows() {
    const std::lock_guard lock(mutex_);
    const auto flows = flows_->Flows();
    return {flows.begin(), flows.end()};
  }
  // Gives plans from another thread, as a push does.
  void Give(std::vector<wire::RankPlan> plans) {
    const std::lock_guard lock(mutex_);
    for (auto& plan : plans) coming_.push_back(std::move(plan));
  }

 private:
  void Serve() {
    server_->OnReport([this](const wire::CollectiveReport&) { ++reports_; });
    while (!is_over_) {
      pollfd ready[] = {{.fd = server_->fd(), .events = POLLIN, .revents = 0},
                        {.fd = flows_->fd(), .events = POLLIN, .revents = 0}};
      ::poll(ready, 2, 5);
      const std::lock_guard lock(mutex_);
      for (const auto& plan : coming_) server_->SetPlan(plan);
      coming_.clear();
      server_->HandleReady();
      flows_->HandleReady();
    }
  }

  Metrics metrics_;
  agent::ManualLoop loop_;
  std::unique_ptr<agent::RankPlanServer> server_;
  std::mutex mutex_;
  std::unique_ptr<agent::LocalServer> flows_;  // guarded, but for its descriptor
  std::vector<wire::RankPlan> coming_;         // guarded
  std::atomic<bool> is_over_ = false;
  std::atomic<int> reports_ = 0;
  std::thread thread_;
};

// Plans that differ in their source ports.
inline std::vector<wire::RankPlan> MakePlans(int number, const std::string& program,
                                             int ranks = kRanks) {
  std::vector<wire::RankPlan> plans;
  for (int rank = 0; rank < ranks; ++rank) {
    wire::RankPlan& plan = plans.emplace_back();
    plan.job = kJob;
    plan.rank = static_cast<std::uint32_t>(rank);
    plan.ranks = static_cast<std::uint32_t>(ranks);
    plan.version = static_cast<std::uint64_t>(number) + 1;
    plan.program = program;
    plan.address = IpAddress::Parse("127.0.0.1").value();
    plan.listen_port = ListenPort(rank);
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      plan.peers.push_back({.rank = static_cast<std::uint32_t>(peer),
                            .address = plan.address,
                            .source_ports = {SourcePort(number, rank, peer)},
                            .destination_port = ListenPort(peer),
                            .channels = {0}});
    }
  }
  return plans;
}

}  // namespace espalier
