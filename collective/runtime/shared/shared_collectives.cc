#include "collective/runtime/shared/shared_collectives.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

#include "collective/runtime/calls/operands.h"
#include "collective/runtime/shared/shared_area.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using transport::Counter;

// What is fetched ahead of a small call.
constexpr std::size_t kMostFetched = 16 * kLine;
// Where ranks share cores a call is timed to its end on all of them, which costs a meeting.
constexpr std::uint32_t kTimeEvery = 8;
// How long a call that has failed waits for ranks that use its memory.
constexpr std::chrono::seconds kWithdrawal(5);

std::size_t Level2Bytes() {
  constexpr std::size_t kUsual = 1 << 20;
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : kUsual;
}

}  // namespace

SharedCollectives::SharedCollectives(std::unique_ptr<transport::SharedGroup> group,
                                     const Costs& costs, std::optional<SharedWay> way)
    : group_(std::move(group)),
      costs_(costs),
      way_(way),
      rank_(group_->rank()),
      size_(group_->size()),
      choice_(kCallClasses, group_->has_cores() ? 1 : kTimeEvery),
      inputs_(static_cast<std::size_t>(size_)) {
  static_assert(offsetof(SharedCall, small) == kLine, "the smallest calls are one line");
  area(rank_).owner = memories_.owner();
  area(rank_).level2_bytes = Level2Bytes();
}

std::size_t SharedCollectives::MemoryOf(int size) {
  return sizeof(RankArea) * static_cast<std::size_t>(std::max(size, 0));
}

RankArea& SharedCollectives::area(int rank) const {
  return reinterpret_cast<RankArea*>(group_->memory())[rank];
}
SharedCall& SharedCollectives::call_of(int rank) const { return area(rank).calls[calls_ % 2]; }
std::byte* SharedCollectives::slot(int rank, std::size_t piece) const {
  return area(rank).slots + piece % 2 * kSlotBytes;
}
std::byte* SharedCollectives::result_slot(int rank, std::size_t piece) const {
  return area(rank).results[piece % 2];
}

Result<void> SharedCollectives::AwaitPeer(Counter& counter, std::uint32_t value, int peer) {
  while (true) {
    const std::uint32_t seen = counter.value.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - value) >= 0) return {};
    if (group_->Spin(counter, seen)) continue;
    auto changed = transport::WaitInNaps(
        patience_, [&](transport::Deadline nap) { return group_->Await(counter, seen, nap); });
    if (changed) continue;
    return Fail(changed.error().code,
                fmt::format("{} (rank {} waited for rank {} in {})", changed.error().message, rank_,
                            peer, Describe(call_)));
  }
}

// A line may be written again when this rank has seen all others in the call after: they have then
// read it.
Result<void> SharedCollectives::Enter(const Operands& operands, const CallSignature& call,
                                      bool is_small) {
  const std::uint32_t number = ++calls_;
  SharedCall& mine = call_of(rank_);
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  mine.tag = ToTag(call);
  if (is_small) {
    reduce::Copy(operands.input, mine.PlaceFor(bytes), bytes);
  } else {
    const bool stays = call.kind != CollectiveKind::kAllToAll || operands.input != operands.output;
    mine.readable = stays ? operands.input : nullptr;
    const auto [in, out] = BytesOf(call.kind, operands, call.root, rank_, size_);
    mine.input = registered_.Find(mine.readable, in).value_or(RegisteredPlace{});
    mine.output = registered_.Find(operands.output, out).value_or(RegisteredPlace{});
    mine.writable = operands.output;
    mine.reads_all = memories_.ReadsAll() ? 1 : 0;
    mine.writes_all = memories_.WritesAll() ? 1 : 0;
    mine.way = ChooseWay(operands, call);
    mine.is_timed = is_timed_ ? 1 : 0;
  }
  mine.arrived.Set(number);
  if (is_small) {
    transport::PauseForALine();
    FetchPeers(bytes);
  }
  for (int step = 1; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    SharedCall& theirs = call_of(peer);
    auto arrived = AwaitPeer(theirs.arrived, number, peer);
    if (!arrived) return arrived;
    if (theirs.tag != mine.tag) {
      return tl::unexpected(MismatchError(peer, FromTag(theirs.tag), rank_, call));
    }
  }
  return {};
}

// Their data comes together with the lines of their flags.
void SharedCollectives::FetchPeers(std::size_t bytes) const {
  if (bytes <= kSmallestBytes) return;
  for (int step = 1; step < size_; ++step) {
    const SharedCall& theirs = call_of((rank_ + step) % size_);
    for (std::size_t at = 0; at < std::min(bytes, kMostFetched); at += kLine) {
      __builtin_prefetch(theirs.small + at);
    }
  }
}

Result<void> SharedCollectives::Meet() {
  area(rank_).met.Set(++meetings_);
  for (int peer = 0; peer < size_; ++peer) {
    auto met = AwaitPeer(area(peer).met, meetings_, peer);
    if (!met) return met;
  }
  return {};
}

bool SharedCollectives::IsSmall(const Operands& operands, const CallSignature& call) const {
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  if (call.kind != CollectiveKind::kAllReduce || bytes > kMostSmallBytes) return false;
  if (way_) return *way_ == SharedWay::kSmall;
  if (bytes <= kSmallestBytes) return true;  // two meetings less
  return Predict(costs_, SharedWork(SharedWay::kSmall, size_, bytes, costs_.lanes)) <=
         Predict(costs_, SharedWork(SharedWay::kSlots, size_, bytes, costs_.lanes));
}

Result<void> SharedCollectives::Run(const Operands& operands, const CallSignature& call,
                                    const transport::Patience& patience) {
  patience_ = patience;
  call_ = call;
  reduction_ = {.type = operands.type,
                .op = operands.op,
                .divisor = operands.op == reduce::ReduceOp::kAvg ? size_ : 1};
  auto done = RunCall(operands, call);
  if (done) return done;
  group_->Abort(done.error());
  const auto reaches = group_->AwaitWithdrawal(std::chrono::steady_clock::now() + kWithdrawal);
  if (!reaches) return done;
  return Fail(done.error().code, fmt::format("{}; rank {} may yet read or write this call's memory",
                                             done.error().message, *reaches));
}

// Straight between the memories of the ranks' programs.
Result<void> SharedCollectives::RunDirect(const Operands& operands, const CallSignature& call) {
  auto reached = group_->Reach();
  if (!reached) return reached;
  auto done = IsDirect(call) ? RunMapped(operands, call) : RunByReading(operands, call);
  if (done) done = Meet();
  group_->Withdraw();
  return done;
}

Result<void> SharedCollectives::RunCall(const Operands& operands, const CallSignature& call) {
  const bool is_small = IsSmall(operands, call);
  auto entered = Enter(operands, call, is_small);
  if (!entered) return entered;
  if (calls_ == 1) MeetMemories();
  if (is_small) {
    ReduceSmall(operands);
    return {};
  }
  if (IsDirect(call)) return RunDirect(operands, call);
  long_way_ = WayOfAll(call);
  // Ranks that take turns on a core end one after another, which one of them does not see.
  const bool meets = !group_->has_cores() && long_way_ != SharedWay::kRead &&
                     call_of(ChooserOf(call)).is_timed != 0;
  if (!is_timed_ && !meets) return RunLong(operands, call);
  const auto begin = std::chrono::steady_clock::now();
  auto done = RunLong(operands, call);
  if (done && meets) done = Meet();
  if (!is_timed_) return done;
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  choice_.Record(time.count());
  return done;
}

Result<void> SharedCollectives::RunLong(const Operands& operands, const CallSignature& call) {
  if (long_way_ == SharedWay::kRead) return RunDirect(operands, call);
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return AllReduceBySlots(operands);
    case CollectiveKind::kAllGather:
      return AllGather(operands);
    case CollectiveKind::kReduceScatter:
      return Scatter(operands, true);
    case CollectiveKind::kAllToAll:
      return Scatter(operands, false);
    case CollectiveKind::kBroadcast:
      return Broadcast(operands, call.root);
    case CollectiveKind::kReduce:
      return ReduceToRoot(operands, call.root);
    default:
      return {};  // a barrier: all have entered
  }
}

void SharedCollectives::ReduceSmall(const Operands& operands) {
  if (operands.elements == 0) return;
  const std::size_t bytes = operands.elements * reduce::SizeOf(operands.type);
  for (int peer = 0; peer < size_; ++peer) {
    inputs_[static_cast<std::size_t>(peer)] = call_of(peer).PlaceFor(bytes);
  }
  reduce::Reduce(reduction_, inputs_, {&operands.output, 1}, operands.elements);
}

}  // namespace espalier::runtime
