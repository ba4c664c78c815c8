#include "collective/runtime/program/program_collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/algorithms/algorithm.h"
#include "collective/program/verifier/verifier.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

// From this size on several connections are faster than one.
constexpr std::size_t kLargeBytes = 64 << 10;

// The algorithms whose chunks may be of unequal sizes.
std::string_view RingOf(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather ? "allgather-ring" : "reduce-scatter-ring";
}

}  // namespace

Result<std::string_view> ProgramCollectives::Choose(CollectiveKind kind, const Operands& operands) {
  if (operands.HasUnequalParts()) return RingOf(kind);
  const auto candidates = CandidatesOf(kind, transport_->size(), choice_.ranks_per_host());
  const auto wanted = std::find(candidates.begin(), candidates.end(), algorithm_);
  if (wanted != candidates.end()) return *wanted;
  const Shares shares = SharesOf(kind, transport_->size());
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  return choice_.Choose(kind, bytes * std::max(shares.input, shares.output));
}

Result<Interpreter*> ProgramCollectives::Find(std::string_view algorithm, int root, int instances,
                                              transport::Deadline deadline) {
  std::unique_ptr<Interpreter>& found =
      interpreters_[{fmt::format("{}/{}", algorithm, instances), root}];
  if (found != nullptr) return found.get();
  algorithms::AlgorithmOptions options = choice_.OptionsOf();
  options.root = std::max(root, 0);
  options.instances = instances;
  auto program = algorithms::MakeAlgorithm(algorithm, options);
  if (!program) return Propagate(program);
  const program::Verdict verdict = program::Verify(*program, {.fifo_slots = transport_->slots()});
  if (verdict.violation) {
    return Fail(ErrorCode::kInternal, fmt::format("{} of {} ranks is incorrect: {}", algorithm,
                                                  transport_->size(), verdict.violation->message));
  }
  auto prepared =
      Interpreter::Prepare(std::make_shared<const program::Program>(std::move(*program)),
                           *transport_, deadline, memory_);
  if (!prepared) return Propagate(prepared);
  found = std::move(*prepared);
  return found.get();
}

Result<void> ProgramCollectives::Run(const Operands& operands, const CallSignature& call,
                                     const transport::WaitLimit& limit) {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  const int instances = bytes > kLargeBytes && !operands.HasUnequalParts() ? connections_ : 1;
  EnterCall(*transport_, call);
  const auto algorithm = Choose(call.kind, operands);
  if (!algorithm) return tl::unexpected(algorithm.error());
  auto interpreter = Find(*algorithm, call.root, instances, limit.deadline);
  if (!interpreter) {
    transport_->Abort(interpreter.error());
    return Propagate(interpreter);
  }
  return (*interpreter)->Run(operands, call, limit);
}

Result<void> ProgramCollectives::Enter(const CallSignature& call,
                                       const transport::WaitLimit& /*limit*/) {
  EnterCall(*transport_, call);
  return {};
}

Result<std::byte*> ProgramCollectives::Allocate(std::size_t /*bytes*/) {
  return Fail(ErrorCode::kUnsupported,
              "registered buffers need shared memory or the offload service");
}
Result<void> ProgramCollectives::Release(std::byte* /*memory*/) {
  return Fail(ErrorCode::kNotFound, "this memory is not a registered buffer of the group");
}

}  // namespace espalier::runtime
