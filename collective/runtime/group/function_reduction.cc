#include "collective/runtime/group/function_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace espalier::runtime {
namespace {

constexpr std::size_t kMaxElementBytes = 1 << 20;
// The bytes of each rank that are combined at a time, so that the result stays in the caches.
constexpr std::size_t kPieceBytes = 64 << 10;

tl::unexpected<Error> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

// Ends the group for all ranks, and returns the error.
Result<void> EndGroup(Group& group, Error error) {
  group.Interrupt(error);
  auto ended = group.RunExchange({.kind = ExchangeKind::kReduction});
  return ended ? tl::unexpected(std::move(error)) : ended;
}

// One call: the elements, and the slices in which ranks reduce them.
class Reducer {
 public:
  Reducer(Group& group, const ReductionFunction& function, std::size_t count, int root)
      : group_(group), function_(function), count_(count), root_(root) {}

  // Errors: kInvalidArgument.
  Result<void> Check(const void* input, const void* output, bool has_output) const {
    const std::size_t element = function_.element_bytes;
    if (element == 0 || element > kMaxElementBytes) {
      return Refuse(fmt::format("elements of {} bytes are out of range (1 to {})", element,
                                kMaxElementBytes));
    }
    if (!function_.combine) return Refuse("the function that reduces is null");
    const auto ranks = static_cast<std::size_t>(group_.size());
    const auto limit = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    if (count_ > limit / element - ranks) {
      return Refuse(
          fmt::format("{} elements of {} bytes exceed the address space (a negative "
                      "count?)",
                      count_, element));
    }
    if (count_ > 0 && (input == nullptr || (has_output && output == nullptr))) {
      return Refuse(fmt::format("the buffer for {} elements is null", count_));
    }
    return {};
  }

  // Reduces the slice of this rank.
  Result<void> Reduce(const void* input) {
    try {
      slice_.resize(SizeOf(group_.rank()) * static_cast<std::size_t>(group_.size()));
    } catch (const std::bad_alloc&) {
      return EndGroup(group_, {ErrorCode::kResourceExhausted,
                               fmt::format("rank {} has too little memory for a reduction of {} "
                                           "elements of {} bytes",
                                           group_.rank(), count_, function_.element_bytes)});
    }
    Exchange exchange = MakeExchange();
    const std::size_t own = SizeOf(group_.rank());
    for (int peer = 0; peer < group_.size(); ++peer) {
      exchange.sends.push_back({.peer = peer, .bytes = SliceOf(input, peer)});
      const auto place = std::span(slice_).subspan(own * static_cast<std::size_t>(peer), own);
      exchange.receives.push_back({.peer = peer, .bytes = place});
    }
    auto exchanged = group_.RunExchange(exchange);
    if (!exchanged) return exchanged;
    try {
      Combine();
    } catch (const std::exception& error) {
      return EndGroup(group_, {ErrorCode::kInternal,
                               fmt::format("the function that reduces has failed on rank {}: {}",
                                           group_.rank(), error.what())});
    }
    slice_.resize(own);
    return {};
  }

  // Gives the reduced slices to all ranks, or to the root.
  Result<void> Distribute(void* output) {
    Exchange exchange = MakeExchange();
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (root_ == program::kNoRoot || root_ == peer) {
        exchange.sends.push_back({.peer = peer, .bytes = slice_});
      }
      if (root_ != program::kNoRoot && root_ != group_.rank()) continue;
      const auto slice = SliceOf(output, peer);
      exchange.receives.push_back(
          {.peer = peer, .bytes = {const_cast<std::byte*>(slice.data()), slice.size()}});
    }
    return group_.RunExchange(exchange);
  }

  const std::vector<std::byte>& slice() const { return slice_; }

 private:
  Exchange MakeExchange() const {
    return {.kind = ExchangeKind::kReduction,
            .root = root_,
            .count = count_,
            .element_bytes = static_cast<std::uint32_t>(function_.element_bytes)};
  }
  // Slices differ by at most one element.
  std::size_t BeginOf(int rank) const {
    const auto ranks = static_cast<std::size_t>(group_.size());
    const auto number = static_cast<std::size_t>(rank);
    const std::size_t elements = count_ / ranks * number + std::min(number, count_ % ranks);
    return elements * function_.element_bytes;
  }
  std::size_t SizeOf(int rank) const { return BeginOf(rank + 1) - BeginOf(rank); }
  std::span<const std::byte> SliceOf(const void* buffer, int rank) const {
    if (SizeOf(rank) == 0) return {};
    return {static_cast<const std::byte*>(buffer) + BeginOf(rank), SizeOf(rank)};
  }

  void Combine() {
    const std::size_t element = function_.element_bytes;
    const std::size_t own = SizeOf(group_.rank());
    const std::size_t piece = std::max(kPieceBytes / element, std::size_t{1}) * element;
    for (std::size_t begin = 0; begin < own; begin += piece) {
      const std::size_t count = std::min(piece, own - begin) / element;
      for (int peer = 1; peer < group_.size(); ++peer) {
        const std::size_t theirs = own * static_cast<std::size_t>(peer) + begin;
        function_.combine(slice_.data() + begin, slice_.data() + theirs, count);
      }
    }
  }

  Group& group_;
  const ReductionFunction& function_;
  const std::size_t count_;
  const int root_;
  std::vector<std::byte> slice_;  // first of all ranks, then the reduced one
};

}  // namespace

Result<void> AllReduceBy(Group& group, const void* input, void* output, std::size_t count,
                         const ReductionFunction& function) {
  Reducer reducer(group, function, count, program::kNoRoot);
  auto done = reducer.Check(input, output, true);
  if (done) done = reducer.Reduce(input);
  if (done) done = reducer.Distribute(output);
  return done;
}

Result<void> ReduceBy(Group& group, const void* input, void* output, std::size_t count,
                      const ReductionFunction& function, int root) {
  if (root < 0 || root >= group.size()) {
    return Refuse(
        fmt::format("root {} is not a rank (the group has {} ranks)", root, group.size()));
  }
  Reducer reducer(group, function, count, root);
  auto done = reducer.Check(input, output, group.rank() == root);
  if (done) done = reducer.Reduce(input);
  if (done) done = reducer.Distribute(output);
  return done;
}

Result<void> ReduceScatterBy(Group& group, const void* input, void* output, std::size_t count,
                             const ReductionFunction& function) {
  const auto ranks = static_cast<std::size_t>(group.size());
  if (count > std::numeric_limits<std::size_t>::max() / ranks) {
    return Refuse(fmt::format("{} elements for each rank exceed the address space", count));
  }
  // The slices are the parts of the ranks, as all have equally many elements.
  Reducer reducer(group, function, count * ranks, program::kNoRoot);
  auto done = reducer.Check(input, output, true);
  if (done) done = reducer.Reduce(input);
  const auto& slice = reducer.slice();
  if (done && !slice.empty()) std::memcpy(output, slice.data(), slice.size());
  return done;
}

}  // namespace espalier::runtime
