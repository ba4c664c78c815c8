#include "collective/runtime/calls/operands.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "collective/runtime/calls/call_signature.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

tl::unexpected<Error> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

// The size of a buffer that holds this rank's part (parts == 1) or the parts of all ranks.
std::size_t BytesOfParts(const Operands& operands, std::size_t parts, int rank) {
  const std::size_t element = reduce::SizeOf(operands.type);
  if (!operands.HasUnequalParts()) return operands.elements * parts * element;
  return (parts == 1 ? operands.PartOf(rank) : operands.elements) * element;
}

}  // namespace

std::size_t Operands::PartOf(int rank) const {
  return bounds.empty() ? elements : BeginOf(rank + 1) - BeginOf(rank);
}

std::size_t Operands::BeginOf(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return bounds.empty() ? index * elements : bounds[index];
}

BufferBytes BytesOf(CollectiveKind kind, const Operands& operands, int root, int rank, int size) {
  if (kind == CollectiveKind::kBarrier) return {};
  const bool has_output = kind != CollectiveKind::kReduce || rank == root;
  const Shares shares = SharesOf(kind, size);
  return {.input = BytesOfParts(operands, shares.input, rank),
          .output = has_output ? BytesOfParts(operands, shares.output, rank) : 0};
}

Result<std::vector<std::size_t>> BoundsOf(CollectiveKind kind, std::span<const std::size_t> counts,
                                          int size) {
  if (kind != CollectiveKind::kAllGather && kind != CollectiveKind::kReduceScatter) {
    return Refuse(fmt::format("{} takes no counts (only allgather and reduce_scatter do)",
                              program::CollectiveKindName(kind)));
  }
  if (counts.size() != static_cast<std::size_t>(size)) {
    return Refuse(
        fmt::format("{} counts for {} ranks (give one for each rank)", counts.size(), size));
  }
  std::vector<std::size_t> bounds = {0};
  for (const std::size_t count : counts) {
    if (count > std::numeric_limits<std::size_t>::max() - bounds.back()) {
      return Refuse("the sum of the counts exceeds 64 bits");
    }
    bounds.push_back(bounds.back() + count);
  }
  return bounds;
}

Result<void> CheckOperands(program::CollectiveKind kind, const Operands& operands, int root,
                           int rank, int size) {
  const bool is_rooted = kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast;
  if (is_rooted && (root < 0 || root >= size)) {
    return Refuse(fmt::format("root {} is not a rank (the group has {} ranks)", root, size));
  }
  const bool reduces = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
                       kind == CollectiveKind::kReduceScatter;
  if (reduces && operands.op == reduce::ReduceOp::kAvg && reduce::IsInteger(operands.type)) {
    return Refuse(
        fmt::format("an average of {} would lose its fraction (sum the elements and "
                    "divide them, or average floats)",
                    reduce::DataTypeName(operands.type)));
  }
  if (operands.elements == 0 || kind == CollectiveKind::kBarrier) return {};
  if (kind == CollectiveKind::kBroadcast && operands.input != operands.output) {
    return Refuse("a broadcast needs the same buffer as input and output");
  }
  const std::size_t times = operands.HasUnequalParts() ? 1 : static_cast<std::size_t>(size);
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t limit = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (operands.elements > limit / element / times) {
    return Refuse(fmt::format("{} elements of {} bytes for {} ranks exceed the address space",
                              operands.elements, element, size));
  }
  const auto [input, output] = BytesOf(kind, operands, root, rank, size);
  if ((input > 0 && operands.input == nullptr) || (output > 0 && operands.output == nullptr)) {
    return Refuse(fmt::format("the buffer for {} elements is null",
                              (operands.input == nullptr ? input : output) / element));
  }
  if (input == 0 || output == 0) return {};
  const auto in = reinterpret_cast<std::uintptr_t>(operands.input);
  const auto out = reinterpret_cast<std::uintptr_t>(operands.output);
  const std::size_t before = operands.BeginOf(rank) * element;
  const bool in_place = kind == CollectiveKind::kAllGather       ? in == out + before
                        : kind == CollectiveKind::kReduceScatter ? out == in + before
                                                                 : in == out;
  if (!in_place && in < out + output && out < in + input) {
    return Refuse("input and output overlap (they may share memory only in place)");
  }
  return {};
}

}  // namespace espalier::runtime
