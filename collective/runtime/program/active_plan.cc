#include "collective/runtime/program/active_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "collective/program/verifier/verifier.h"
#include "collective/transport/hosts/hosts_transport.h"
#include "collective/transport/shm/shm_transport.h"
#include "collective/transport/tcp/tcp_transport.h"
#include "collective/transport/verbs/verbs_transport.h"

namespace espalier::runtime {
namespace {

constexpr transport::ShmOptions kShared = {};
constexpr int kSlots = kShared.slots;
// Small messages, so that several are in flight on every edge of a tree.
constexpr std::size_t kPlannedSlotBytes = 256 << 10;
constexpr std::size_t kPlannedMessageBytes = 64 << 10;
// Long retries: the controller that made the plan detects dead paths and sends a better plan, and a
// peer that is merely slow must not lose its planned port. 7 attempts of 0.27 s.
constexpr verbs::RetryPolicy kPlannedRetryPolicy = {.timeout_log2 = 16, .retries = 6};

transport::PlannedConnections ConnectionsOf(const CollectivePlan& plan, int rank) {
  transport::PlannedConnections connections;
  for (const auto& block : plan.program->ranks[static_cast<std::size_t>(rank)].blocks) {
    if (block.send_peer != program::kNoPeer) {
      const transport::Endpoint to = {block.send_peer, block.channel};
      auto& send = connections.sends[to];
      const auto port = plan.source_ports.find(to);
      if (port != plan.source_ports.end()) send.port = port->second;
      if (const auto nics = plan.addresses.nics.find(to); nics != plan.addresses.nics.end()) {
        send.source = nics->second.source;
        send.destination = nics->second.destination;
      }
    }
    if (block.receive_peer != program::kNoPeer) {
      connections.receives.insert({block.receive_peer, block.channel});
    }
  }
  return connections;
}

// A connection has one queue pair with the planned port, or the device's own ports if none is
// planned.
std::function<std::vector<std::uint16_t>(transport::Endpoint)> PlannedPortsOf(
    const CollectivePlan& plan) {
  return [ports = plan.source_ports](transport::Endpoint endpoint) -> std::vector<std::uint16_t> {
    const auto port = ports.find(endpoint);
    if (port == ports.end() || port->second == 0) return {};
    return {port->second};
  };
}

// The addresses of this rank's devices, for connections that the plan gives NICs of their own.
std::function<std::optional<IpAddress>(transport::Endpoint)> DevicesOf(const CollectivePlan& plan) {
  return [nics = plan.addresses.nics](transport::Endpoint endpoint) -> std::optional<IpAddress> {
    const auto found = nics.find(endpoint);
    if (found == nics.end()) return std::nullopt;
    return found->second.source;
  };
}

Result<std::unique_ptr<transport::Transport>> Open(const CollectivePlan& plan,
                                                   const ActivePlan::Place& place,
                                                   transport::Deadline deadline) {
  const std::string name = fmt::format("{}/plan.{}", place.group, plan.generation);
  if (place.medium == Medium::kShared) {
    transport::ShmOptions options = kShared;
    options.channels = std::max(1, program::CountChannels(*plan.program));
    return transport::JoinShm(place.store, name, place.rank, place.size, options, deadline);
  }
  if (place.medium == Medium::kVerbs) {
    return transport::JoinVerbs(place.store, name, place.rank, place.size,
                                {.slots = kSlots,
                                 .address = place.address,
                                 .members = place.members,
                                 .source_ports = PlannedPortsOf(plan),
                                 .device_of = DevicesOf(plan),
                                 .patience = kPlannedRetryPolicy,
                                 .deadline = deadline,
                                 .check = place.check});
  }
  const transport::TcpOptions tcp = {.slots = kSlots,
                                     .slot_bytes = kPlannedSlotBytes,
                                     .message_bytes = kPlannedMessageBytes,
                                     .address = place.address,
                                     .members = place.members,
                                     .listener = place.listener,
                                     .more_listeners = place.more_listeners,
                                     .memory = place.memory,
                                     .deadline = deadline,
                                     .check = place.check,
                                     .observer = place.observer,
                                     .planned = ConnectionsOf(plan, place.rank)};
  if (place.medium == Medium::kHosts) {
    return transport::JoinHosts(
        place.store, name, place.rank, place.hosts,
        {.channels = std::max(1, program::CountChannels(*plan.program)), .tcp = tcp}, deadline);
  }
  return transport::JoinTcp(place.store, name, place.rank, place.size, tcp);
}

}  // namespace

Result<CollectivePlan> CheckCollectivePlan(CollectivePlan plan, int rank, int size,
                                           std::int64_t budget) {
  if (plan.program == nullptr) return Fail(ErrorCode::kInvalidArgument, "the plan has no program");
  const program::Program& program = *plan.program;
  if (program.ranks.size() != static_cast<std::size_t>(size)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("program {} is for {} ranks, but the group has {}", program.name,
                            program.ranks.size(), size));
  }
  if (program.part) {
    if (program.part->rank != rank) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("program {} is the part of rank {}, but this is rank {}",
                              program.name, program.part->rank, rank));
    }
    if (const auto violation = program::CheckPart(program)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("program {} is incorrect: {}", program.name, violation->message));
    }
    return plan;
  }
  const program::Verdict verdict =
      program::Verify(program, {.fifo_slots = kSlots, .budget = budget});
  if (verdict.violation) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("program {} is incorrect: {}",
                                                         program.name, verdict.violation->message));
  }
  if (verdict.root != program.collective.root) {
    auto rooted = std::make_shared<program::Program>(program);
    rooted->collective.root = verdict.root;
    plan.program = std::move(rooted);
  }
  return plan;
}

Result<std::unique_ptr<ActivePlan>> ActivePlan::Prepare(CollectivePlan plan, const Place& place,
                                                        transport::Deadline deadline) {
  auto transport = Open(plan, place, deadline);
  if (!transport) return Propagate(transport);
  auto interpreter = Interpreter::Prepare(plan.program, **transport, deadline, place.memory);
  if (!interpreter) return Propagate(interpreter);
  return std::unique_ptr<ActivePlan>(
      new ActivePlan(std::move(plan), std::move(*transport), std::move(*interpreter)));
}

bool ActivePlan::Serves(const CallSignature& call, std::size_t bytes) const {
  const program::Program& program = *plan_.program;
  const auto size = static_cast<std::int64_t>(bytes);
  return call.kind == program.collective.kind && call.root == program.collective.root &&
         size >= program.min_bytes && size <= program.max_bytes;
}

}  // namespace espalier::runtime
