#include "collective/runtime/call_signature.h"

#include <fmt/format.h>

namespace espalier::runtime {

Shares SharesOf(program::CollectiveKind kind, int ranks) {
  using program::CollectiveKind;
  const auto all = static_cast<std::size_t>(ranks);
  const bool is_all = kind == CollectiveKind::kAllToAll;
  return {.input = is_all || kind == CollectiveKind::kReduceScatter ? all : 1,
          .output = is_all || kind == CollectiveKind::kAllGather ? all : 1};
}

transport::MessageTag ToTag(const CallSignature& call) {
  const std::uint64_t what = static_cast<std::uint64_t>(call.kind) |
                             static_cast<std::uint64_t>(call.type) << 8 |
                             static_cast<std::uint64_t>(call.op) << 16;
  const std::uint64_t when =
      call.sequence | static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32;
  return {what, when, call.count, call.program};
}

CallSignature FromTag(const transport::MessageTag& tag) {
  return {.sequence = static_cast<std::uint32_t>(tag[1]),
          .kind = static_cast<program::CollectiveKind>(tag[0] & 0xff),
          .type = static_cast<reduce::DataType>(tag[0] >> 8 & 0xff),
          .op = static_cast<reduce::ReduceOp>(tag[0] >> 16 & 0xff),
          .root = static_cast<std::int32_t>(tag[1] >> 32),
          .count = tag[2],
          .program = tag[3]};
}

std::string Describe(const CallSignature& call) {
  if (call.kind > program::CollectiveKind::kCustom ||
      static_cast<int>(call.type) >= reduce::kDataTypes ||
      static_cast<int>(call.op) >= reduce::kReduceOps) {
    return "something unknown (another version?)";
  }
  std::string text =
      fmt::format("{} of {} {} ({}", program::CollectiveKindName(call.kind), call.count,
                  reduce::DataTypeName(call.type), reduce::ReduceOpName(call.op));
  if (call.root != program::kNoRoot) text += fmt::format(", root {}", call.root);
  text += fmt::format("), call {}", call.sequence);
  if (call.program != 0) text += fmt::format(", program {:016x}", call.program);
  return text;
}

Error MismatchError(int peer, const CallSignature& theirs, int rank, const CallSignature& ours) {
  return {ErrorCode::kFailedPrecondition,
          fmt::format("rank {} is in {}, rank {} in {}: all ranks make the same calls in the same "
                      "order",
                      peer, Describe(theirs), rank, Describe(ours))};
}

}  // namespace espalier::runtime
