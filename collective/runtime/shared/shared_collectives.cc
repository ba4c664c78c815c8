#include "collective/runtime/shared/shared_collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

// How long a failed call waits for ranks that still use its memory.
constexpr std::chrono::seconds kWithdrawal(5);

// There are slots for each two ranks, so they are smaller in large groups.
transport::ShmOptions MessageOptions(int size) {
  constexpr int kFew = 16;
  constexpr int kSome = 128;
  transport::ShmOptions options;
  options.channels = Backend::kMessageChannels;
  options.slot_bytes = size <= kFew ? 64 << 10 : size <= kSome ? 16 << 10 : 4 << 10;
  if (size > kSome) options.slots = 2;
  return options;
}

// Where the slots of messages begin in the group's memory.
std::size_t AreasOf(int size) {
  const std::size_t bytes = sizeof(RankArea) * static_cast<std::size_t>(std::max(size, 0));
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

SharedCollectives::SharedCollectives(std::unique_ptr<transport::SharedGroup> group,
                                     const Costs& costs, std::optional<SharedProtocolKind> forced)
    : context_(std::move(group)),
      messages_(transport::MakeShm(context_.group(),
                                   context_.group().memory() + AreasOf(context_.size()),
                                   MessageOptions(context_.size()))),
      choice_(context_, costs, forced),
      exchange_(context_),
      small_(context_),
      zero_copy_(context_),
      single_copy_(context_),
      staged_(context_, exchange_, reduce::Stores::kCached),
      staged_streaming_(context_, exchange_, reduce::Stores::kStreaming) {}

std::size_t SharedCollectives::MemoryOf(int size) {
  return AreasOf(size) + transport::ShmMemoryOf(std::max(size, 0), MessageOptions(size));
}

Result<void> SharedCollectives::Run(const Operands& operands, const CallSignature& call,
                                    const transport::WaitLimit& limit) {
  context_.Begin(operands, call, limit);
  auto done = RunCall(operands, call);
  if (done) return done;
  context_.group().Abort(done.error());
  const auto reaches =
      context_.group().AwaitRemoteAccessEnd(std::chrono::steady_clock::now() + kWithdrawal);
  if (!reaches) return done;
  return Fail(done.error().code,
              fmt::format("{}; rank {} may still read or write this call's memory",
                          done.error().message, *reaches));
}

Result<void> SharedCollectives::Enter(const CallSignature& call,
                                      const transport::WaitLimit& limit) {
  context_.Begin({}, call, limit);
  context_.call_of(context_.rank()).tag = ToTag(call);
  context_.Arrive();
  return context_.AwaitArrivals();
}

Result<void> SharedCollectives::EnterWith(const Operands& operands, const CallSignature& call,
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
  mine.protocol = choice_.Choose(operands, call);
  mine.is_timed = choice_.is_timed() ? 1 : 0;
}

Result<void> SharedCollectives::RunCall(const Operands& operands, const CallSignature& call) {
  const bool is_small = choice_.IsSmall(operands, call);
  auto entered = EnterWith(operands, call, is_small);
  if (!entered) return entered;
  if (is_small) return small_.Run(operands, call);
  if (zero_copy_.CanServe(call)) return RunWithRemoteAccess(zero_copy_, operands, call);
  const SharedProtocolKind protocol = choice_.ProtocolOfAll(call);
  // Ranks that share a core end one after another, so timing needs a barrier to see the last end.
  const bool needs_barrier = !context_.group().has_cores() &&
                             protocol != SharedProtocolKind::kSingleCopy &&
                             context_.call_of(choice_.ChooserOf(call)).is_timed != 0;
  if (!choice_.is_timed() && !needs_barrier) return RunLong(operands, call, protocol);
  const auto begin = std::chrono::steady_clock::now();
  auto done = RunLong(operands, call, protocol);
  if (done && needs_barrier) done = context_.Barrier();
  if (!choice_.is_timed()) return done;
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  choice_.Record(time.count());
  return done;
}

Result<void> SharedCollectives::RunLong(const Operands& operands, const CallSignature& call,
                                        SharedProtocolKind protocol) {
  if (protocol == SharedProtocolKind::kSingleCopy)
    return RunWithRemoteAccess(single_copy_, operands, call);
  return (protocol == SharedProtocolKind::kStagedStreaming ? staged_streaming_ : staged_)
      .Run(operands, call);
}

// Runs a protocol that accesses the memory of other ranks' programs.
Result<void> SharedCollectives::RunWithRemoteAccess(SharedProtocol& protocol,
                                                    const Operands& operands,
                                                    const CallSignature& call) {
  auto reached = context_.group().BeginRemoteAccess();
  if (!reached) return reached;
  auto done = protocol.Run(operands, call);
  if (done) done = context_.Barrier();
  context_.group().EndRemoteAccess();
  return done;
}

}  // namespace espalier::runtime
