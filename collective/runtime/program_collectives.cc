#include "collective/runtime/program_collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/algorithms/algorithm.h"
#include "collective/program/verifier/verifier.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

// From here on bytes count for more than steps.
constexpr std::size_t kLargeBytes = 64 << 10;

}  // namespace

std::string_view ChooseAlgorithm(CollectiveKind kind, std::size_t bytes) {
  const bool is_large = bytes > kLargeBytes;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return is_large ? "allreduce-ring-chunked" : "allreduce-halving-doubling";
    case CollectiveKind::kAllGather:
      return is_large ? "allgather-ring" : "allgather-bruck";
    case CollectiveKind::kReduceScatter:
      return is_large ? "reduce-scatter-ring" : "reduce-scatter-halving-doubling";
    case CollectiveKind::kReduce:
      return "reduce-binomial";
    case CollectiveKind::kBroadcast:
      return is_large ? "broadcast-pipelined" : "broadcast-binomial";
    case CollectiveKind::kAllToAll:
      return "alltoall-direct";
    default:
      return "barrier-all-to-all";
  }
}

Result<Interpreter*> ProgramCollectives::Find(std::string_view algorithm, int root, int instances,
                                              transport::Deadline deadline) {
  std::unique_ptr<Interpreter>& found =
      interpreters_[{fmt::format("{}/{}", algorithm, instances), root}];
  if (found != nullptr) return found.get();
  auto program = algorithms::MakeAlgorithm(algorithm, {.ranks = transport_->size(),
                                                       .root = std::max(root, 0),
                                                       .instances = instances,
                                                       .fifo_slots = transport_->slots()});
  if (!program) return Propagate(program);
  const program::Verdict verdict = program::Verify(*program, {.fifo_slots = transport_->slots()});
  if (verdict.violation) {
    return Fail(ErrorCode::kInternal, fmt::format("{} of {} ranks is not right: {}", algorithm,
                                                  transport_->size(), verdict.violation->message));
  }
  auto prepared = Interpreter::Prepare(
      std::make_shared<const program::Program>(std::move(*program)), *transport_, deadline);
  if (!prepared) return Propagate(prepared);
  found = std::move(*prepared);
  return found.get();
}

Result<void> ProgramCollectives::Run(const Operands& operands, const CallSignature& call,
                                     const transport::Patience& patience) {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  const int instances = bytes > kLargeBytes ? connections_ : 1;
  auto interpreter =
      Find(ChooseAlgorithm(call.kind, bytes), call.root, instances, patience.deadline);
  if (!interpreter) {
    transport_->Abort(interpreter.error());
    return Propagate(interpreter);
  }
  return (*interpreter)->Run(operands, call, patience);
}

Result<std::byte*> ProgramCollectives::Allocate(std::size_t /*bytes*/) {
  return Fail(ErrorCode::kUnsupported, "only ranks that share memory have registered buffers");
}
Result<void> ProgramCollectives::Release(std::byte* /*memory*/) {
  return Fail(ErrorCode::kNotFound, "that is no registered buffer");
}

}  // namespace espalier::runtime
