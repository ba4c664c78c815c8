#include "collective/client/c_structs.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "collective/program/program_bytes.h"

namespace espalier::client {

Error Refuse(const char* what) { return {ErrorCode::kInvalidArgument, what}; }

Result<runtime::CommunicatorOptions> ToOptions(const espalier_comm_options& from) {
  if (from.medium > ESPALIER_HOSTS || from.plan_port > UINT16_MAX) {
    return tl::unexpected(Refuse("medium or plan_port is out of range (another version?)"));
  }
  if (from.agent != nullptr && from.offload != nullptr) {
    return tl::unexpected(
        Refuse("agent and offload exclude each other (the job decides where its calls are done)"));
  }
  runtime::CommunicatorOptions chosen;
  // Offload services connect over the network, even if the programs could share memory.
  const bool meets_over_tcp = from.medium == ESPALIER_SHARED_MEMORY && from.offload != nullptr;
  if (from.medium == ESPALIER_TCP || meets_over_tcp) chosen.medium = runtime::Medium::kTcp;
  if (from.medium == ESPALIER_VERBS) chosen.medium = runtime::Medium::kVerbs;
  if (from.medium == ESPALIER_HOSTS) {
    chosen.medium = runtime::Medium::kHosts;
    if (from.host != nullptr) chosen.host = from.host;
  }
  if (from.timeout_ms != 0) chosen.timeout = std::chrono::milliseconds(from.timeout_ms);
  if (from.address != nullptr) chosen.address = from.address;
  chosen.join_by = std::chrono::steady_clock::now() + chosen.timeout;
  if (from.costs != nullptr) chosen.costs_file = from.costs;
  if (from.connections != 0) chosen.connections = static_cast<int>(from.connections);
  chosen.plan_port = static_cast<std::uint16_t>(from.plan_port);
  return chosen;
}

Result<runtime::CollectivePlan> ToPlan(const espalier_plan& from) {
  if (from.program == nullptr || (from.source_ports == nullptr && from.source_port_count > 0)) {
    return tl::unexpected(Refuse("program or source_ports of the plan is null"));
  }
  auto program =
      program::DecodeProgram({static_cast<const char*>(from.program), from.program_bytes});
  if (!program) return Propagate(program);
  runtime::CollectivePlan plan = {
      .program = std::make_shared<const program::Program>(std::move(*program)),
      .generation = from.generation};
  for (size_t i = 0; i < from.source_port_count; ++i) {
    const espalier_source_port& one = from.source_ports[i];
    if (one.port > UINT16_MAX || one.peer > INT32_MAX || one.channel > INT32_MAX) {
      return tl::unexpected(Refuse("a source port, its peer or its channel is out of range"));
    }
    plan.source_ports[{static_cast<int>(one.peer), static_cast<int>(one.channel)}] =
        static_cast<std::uint16_t>(one.port);
  }
  return plan;
}

}  // namespace espalier::client
