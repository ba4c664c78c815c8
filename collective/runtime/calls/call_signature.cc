#include "collective/runtime/calls/call_signature.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace espalier::runtime {

Shares SharesOf(program::CollectiveKind kind, int ranks) {
  using program::CollectiveKind;
  const auto all = static_cast<std::size_t>(ranks);
  const bool is_all = kind == CollectiveKind::kAllToAll;
  return {.input = is_all || kind == CollectiveKind::kReduceScatter ? all : 1,
          .output = is_all || kind == CollectiveKind::kAllGather ? all : 1};
}

std::uint32_t FingerprintOfBounds(std::span<const std::size_t> bounds) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::size_t bound : bounds) {
    hash = (hash ^ bound) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  const auto folded = static_cast<std::uint32_t>(hash);
  return folded == 0 ? 1 : folded;
}

transport::MessageTag ToTag(const CallSignature& call) {
  const std::uint64_t what =
      static_cast<std::uint64_t>(call.kind) | static_cast<std::uint64_t>(call.type) << 8 |
      static_cast<std::uint64_t>(call.op) << 16 | static_cast<std::uint64_t>(call.exchange) << 24 |
      static_cast<std::uint64_t>(call.bounds) << 32;
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
          .program = tag[3],
          .bounds = static_cast<std::uint32_t>(tag[0] >> 32),
          .exchange = static_cast<ExchangeKind>(tag[0] >> 24 & 0xff)};
}

void EnterCall(transport::Transport& transport, const CallSignature& call) {
  CallSignature own = call;
  own.program = 0;
  transport.Enter(ToTag(own),
                  [rank = transport.rank(), own](
                      int peer, const transport::MessageTag& tag) -> Result<transport::PeerCall> {
                    CallSignature theirs = FromTag(tag);
                    theirs.program = 0;
                    if (theirs.sequence == own.sequence && !(theirs == own)) {
                      return tl::unexpected(MismatchError(peer, theirs, rank, own));
                    }
                    const auto ahead = static_cast<std::int32_t>(theirs.sequence - own.sequence);
                    return ahead < 0    ? transport::PeerCall::kEarlier
                           : ahead == 0 ? transport::PeerCall::kSame
                                        : transport::PeerCall::kLater;
                  });
}

namespace {

std::string DescribeExchange(const CallSignature& call) {
  constexpr std::array<std::string_view, kExchangeKinds> kNames = {
      "", "messages", "gather", "scatter", "alltoall in unequal parts", "reduction by a function"};
  std::string text(kNames[static_cast<std::size_t>(call.exchange)]);
  if (call.exchange == ExchangeKind::kReduction) {
    text += fmt::format(" of {} elements of {} bytes", call.count, call.bounds);
  } else if (call.count != 0) {
    text += fmt::format(" of {} {}", call.count, reduce::DataTypeName(call.type));
  }
  if (call.root != program::kNoRoot) text += fmt::format(", root {}", call.root);
  return text + fmt::format(", call {}", call.sequence);
}

}  // namespace

std::string Describe(const CallSignature& call) {
  if (static_cast<int>(call.exchange) >= kExchangeKinds ||
      call.kind > program::CollectiveKind::kCustom ||
      static_cast<int>(call.type) >= reduce::kDataTypes ||
      static_cast<int>(call.op) >= reduce::kReduceOps) {
    return "an unknown call (another version?)";
  }
  if (call.exchange != ExchangeKind::kNone) return DescribeExchange(call);
  std::string text =
      fmt::format("{} of {} {} ({}", program::CollectiveKindName(call.kind), call.count,
                  reduce::DataTypeName(call.type), reduce::ReduceOpName(call.op));
  if (call.bounds != 0) text += fmt::format(", in unequal parts {:08x}", call.bounds);
  if (call.root != program::kNoRoot) text += fmt::format(", root {}", call.root);
  text += fmt::format("), call {}", call.sequence);
  if (call.program != 0) text += fmt::format(", program {:016x}", call.program);
  return text;
}

Error MismatchError(int peer, const CallSignature& theirs, int rank, const CallSignature& ours) {
  CallSignature same_but_bounds = theirs;
  same_but_bounds.bounds = ours.bounds;
  const bool differ_in_counts = ours.exchange == ExchangeKind::kNone && same_but_bounds == ours &&
                                theirs.bounds != 0 && ours.bounds != 0;
  return {ErrorCode::kFailedPrecondition,
          fmt::format("rank {} is in {}, but rank {} is in {}: {}", peer, Describe(theirs), rank,
                      Describe(ours),
                      differ_in_counts ? "the counts differ (pass the same counts on all ranks)"
                                       : "all ranks must make the same calls in the same order")};
}

}  // namespace espalier::runtime
