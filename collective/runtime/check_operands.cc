#include "collective/runtime/check_operands.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "collective/runtime/call_signature.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

tl::unexpected<Error> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace

Result<void> CheckOperands(program::CollectiveKind kind, const Operands& operands, int root,
                           int rank, int size) {
  const bool is_rooted = kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast;
  if (is_rooted && (root < 0 || root >= size)) {
    return Refuse(fmt::format("root {} of {} ranks", root, size));
  }
  if (operands.elements == 0 || kind == CollectiveKind::kBarrier) return {};
  if (kind == CollectiveKind::kBroadcast && operands.input != operands.output) {
    return Refuse("a broadcast has one buffer, its input and its output");
  }
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t limit = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (operands.elements > limit / element / ranks) {
    return Refuse(
        fmt::format("{} elements of {} bytes for {} ranks", operands.elements, element, size));
  }
  const bool has_output = kind != CollectiveKind::kReduce || rank == root;
  if (operands.input == nullptr || (has_output && operands.output == nullptr)) {
    return Refuse(fmt::format("a null buffer for {} elements", operands.elements));
  }
  if (!has_output) return {};
  const std::size_t share = operands.elements * element;
  const Shares shares = SharesOf(kind, size);
  const std::size_t input = share * shares.input;
  const std::size_t output = share * shares.output;
  const auto in = reinterpret_cast<std::uintptr_t>(operands.input);
  const auto out = reinterpret_cast<std::uintptr_t>(operands.output);
  const std::size_t part = share * static_cast<std::size_t>(rank);
  const bool in_place = kind == CollectiveKind::kAllGather       ? in == out + part
                        : kind == CollectiveKind::kReduceScatter ? out == in + part
                                                                 : in == out;
  if (!in_place && in < out + output && out < in + input) {
    return Refuse("input and output overlap (only in place do they share memory)");
  }
  return {};
}

}  // namespace espalier::runtime
