#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "agent/local/rank_plan_client.h"
#include "collective/client/agent_flows.h"
#include "collective/runtime/calls/group.h"
#include "collective/runtime/group/retrying_group.h"
#include "collective/transport/base/rendezvous_store.h"
#include "common/base/result.h"

namespace espalier::client {

struct JobOptions {
  std::string agent;  // the agent's local socket; "": $ESPALIER_AGENT_SOCKET, else the default
  std::string job;
  int rank = 0;
  int size = 0;                               // ranks of the program; 0: as the plan says
  std::chrono::milliseconds timeout{30'000};  // of joining, and of every attempt of a call
};

// A rank's membership of a job that was started by `espalier job start`. The agent on this host
// tells who the other ranks are and which plan they use, and passes on new plans of the controller.
// Calls run in this process, or in the host's offload service if the job was started with
// --offload.
//
// All ranks must leave and rejoin together; a rank that rejoins alone finds no peers.
// Thread safety: as RetryingGroup; a thread of its own listens to the agent.
class JobGroup : public runtime::Group {
 public:
  // Returns when all ranks have joined and the plan is in force.
  // Errors: those of RankPlanClient and of joining; kUnavailable if a plan or a rank does not come
  // in time; kInvalidArgument for a plan of another size; kFailedPrecondition for a program of
  // another version.
  static Result<std::unique_ptr<JobGroup>> Join(const JobOptions& options);
  // As Join, if the agents of all ranks have plans within half of the timeout; the ranks tell one
  // another through the store. Returns null on all ranks if one has no agent or no plan.
  // options.size must be set. Errors: as Join; those of the store.
  static Result<std::unique_ptr<JobGroup>> JoinIfAllHavePlans(const JobOptions& options,
                                                              transport::RendezvousStore& store);
  ~JobGroup() override;

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  Result<void> Run(program::CollectiveKind kind, const void* input, void* output, std::size_t count,
                   reduce::DataType type, reduce::ReduceOp op, int root) override;
  Result<void> RunUnequal(program::CollectiveKind kind, const void* input, void* output,
                          std::span<const std::size_t> counts, reduce::DataType type,
                          reduce::ReduceOp op) override;
  Result<void> RunExchange(const runtime::Exchange& exchange) override {
    return group_->RunExchange(exchange);
  }
  Result<void> Use(runtime::CollectivePlan plan) override { return group_->Use(std::move(plan)); }
  Result<void*> Allocate(std::size_t bytes) override { return group_->Allocate(bytes); }
  Result<void> Release(void* memory) override { return group_->Release(memory); }
  void Interrupt(const Error& cause) override { group_->Interrupt(cause); }

  // The generation of the plan in force for that collective; 0: none.
  std::uint64_t GenerationOf(program::CollectiveKind kind) const {
    return group_->GenerationOf(kind);
  }

 private:
  JobGroup(JobOptions options, std::unique_ptr<agent::RankPlanClient> client,
           agent::LocalRankPlan first)
      : options_(std::move(options)), client_(std::move(client)), first_(std::move(first)) {}

  static Result<std::unique_ptr<JobGroup>> AskAgent(const JobOptions& options,
                                                    std::chrono::milliseconds patience);
  // `end` limits the join.
  Result<void> Meet(transport::Deadline end);
  Result<std::unique_ptr<runtime::Group>> JoinNumber(std::uint32_t number, transport::Deadline end);
  Result<void> AgreeOnFirstPlan(program::CollectiveKind kind, transport::Deadline end);
  void Listen();
  void Report(program::CollectiveKind kind, std::size_t bytes,
              std::chrono::steady_clock::time_point start, const Result<void>& done);

  const JobOptions options_;
  std::unique_ptr<agent::RankPlanClient> client_;
  agent::LocalRankPlan first_;         // the plan with which it joined
  std::unique_ptr<AgentFlows> flows_;  // outlives the groups whose connections it watches
  std::unique_ptr<transport::RendezvousStore> store_;  // outlives the groups that join through it
  std::unique_ptr<runtime::RetryingGroup> group_;
  std::uint64_t calls_ = 0;
  std::atomic<bool> is_over_ = false;
  std::thread listener_;
};

}  // namespace espalier::client
