#include "collective/runtime/shared/shared_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

// How long a call that has failed waits for ranks that use its memory.
constexpr std::chrono::seconds kWithdrawal(5);

}  // namespace

SharedCollectives::SharedCollectives(std::unique_ptr<transport::SharedGroup> group,
                                     const Costs& costs, std::optional<SharedProtocolKind> way)
    : context_(std::move(group)),
      choice_(context_, costs, way),
      exchange_(context_),
      small_(context_),
      mapped_(context_),
      reading_(context_),
      slots_(context_, exchange_, reduce::Stores::kCached),
      streamed_(context_, exchange_, reduce::Stores::kStreaming) {}

std::size_t SharedCollectives::MemoryOf(int size) {
  return sizeof(RankArea) * static_cast<std::size_t>(std::max(size, 0));
}

Result<void> SharedCollectives::Run(const Operands& operands, const CallSignature& call,
                                    const transport::WaitLimit& patience) {
  context_.Begin(operands, call, patience);
  auto done = RunCall(operands, call);
  if (done) return done;
  context_.group().Abort(done.error());
  const auto reaches =
      context_.group().AwaitRemoteAccessEnd(std::chrono::steady_clock::now() + kWithdrawal);
  if (!reaches) return done;
  return Fail(done.error().code, fmt::format("{}; rank {} may yet read or write this call's memory",
                                             done.error().message, *reaches));
}

Result<void> SharedCollectives::Enter(const Operands& operands, const CallSignature& call,
                                      bool is_small) {
  context_.call_of(context_.rank()).tag = ToTag(call);
  if (is_small) {
    small_.Place(operands);
  } else {
    DescribeCall(operands, call);
  }
  context_.Arrive();
  if (is_small) small_.Fetch(operands);
  return context_.AwaitArrivals();
}

void SharedCollectives::DescribeCall(const Operands& operands, const CallSignature& call) {
  SharedCall& mine = context_.call_of(context_.rank());
  const bool stays = call.kind != CollectiveKind::kAllToAll || operands.input != operands.output;
  mine.readable = stays ? operands.input : nullptr;
  const auto [in, out] = BytesOf(call.kind, operands, call.root, context_.rank(), context_.size());
  const RegisteredMemory& registered = context_.registered();
  mine.input = registered.Find(mine.readable, in).value_or(RegisteredPlace{});
  mine.output = registered.Find(operands.output, out).value_or(RegisteredPlace{});
  mine.writable = operands.output;
  mine.reads_all = context_.memories().ReadsAll() ? 1 : 0;
  mine.writes_all = context_.memories().WritesAll() ? 1 : 0;
  mine.way = choice_.Choose(operands, call);
  mine.is_timed = choice_.is_timed() ? 1 : 0;
}

Result<void> SharedCollectives::RunCall(const Operands& operands, const CallSignature& call) {
  const bool is_small = choice_.IsSmall(operands, call);
  auto entered = Enter(operands, call, is_small);
  if (!entered) return entered;
  if (is_small) return small_.Run(operands, call);
  if (mapped_.CanServe(call)) return RunBetweenPrograms(mapped_, operands, call);
  const SharedProtocolKind way = choice_.ProtocolOfAll(call);
  // Ranks that take turns on a core end one after another, which one of them does not see.
  const bool meets = !context_.group().has_cores() && way != SharedProtocolKind::kSingleCopy &&
                     context_.call_of(choice_.ChooserOf(call)).is_timed != 0;
  if (!choice_.is_timed() && !meets) return RunLong(operands, call, way);
  const auto begin = std::chrono::steady_clock::now();
  auto done = RunLong(operands, call, way);
  if (done && meets) done = context_.Meet();
  if (!choice_.is_timed()) return done;
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  choice_.Record(time.count());
  return done;
}

Result<void> SharedCollectives::RunLong(const Operands& operands, const CallSignature& call,
                                        SharedProtocolKind way) {
  if (way == SharedProtocolKind::kSingleCopy) return RunBetweenPrograms(reading_, operands, call);
  return (way == SharedProtocolKind::kStagedStreaming ? streamed_ : slots_).Run(operands, call);
}

// Straight between the memories of the ranks' programs.
Result<void> SharedCollectives::RunBetweenPrograms(SharedProtocol& protocol,
                                                   const Operands& operands,
                                                   const CallSignature& call) {
  auto reached = context_.group().Reach();
  if (!reached) return reached;
  auto done = protocol.Run(operands, call);
  if (done) done = context_.Meet();
  context_.group().EndRemoteAccess();
  return done;
}

}  // namespace espalier::runtime
