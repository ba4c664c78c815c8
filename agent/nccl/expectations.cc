#include "agent/nccl/expectations.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace espalier::nccl {
namespace {

constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMaxExpected = 1ULL << 40;
constexpr std::size_t kMaxPairs = 64;  // for each connection
constexpr std::size_t kMaxConnections = 1 << 16;

// Returns bytes per element; 0: unknown.
std::uint64_t SizeOf(std::string_view datatype) {
  if (datatype.starts_with("nccl")) datatype.remove_prefix(4);
  if (datatype.ends_with("64")) return 8;
  if (datatype.ends_with("32")) return 4;
  if (datatype.ends_with("16")) return 2;
  const bool is_byte = datatype.ends_with("nt8") || datatype.starts_with("Float8");
  return is_byte ? 1 : 0;
}

// Returns how many times the call's data may pass one connection; 0: unknown.
std::uint64_t RoundsOf(std::string_view function, int ranks) {
  if (function == "AllReduce") return 2;
  for (const std::string_view once : {"Broadcast", "Reduce", "Send", "Recv"}) {
    if (function == once) return 1;
  }
  return ranks > 0 ? static_cast<std::uint64_t>(ranks) : 0;
}

}  // namespace

std::uint64_t MostBytes(std::string_view function, std::uint64_t count, std::string_view datatype,
                        int ranks, unsigned channels) {
  const std::uint64_t factor = SizeOf(datatype) * RoundsOf(function, ranks);
  if (factor == 0 || count > kAny / factor) return kAny;
  const std::uint64_t bytes = count * factor;
  return channels == 0 ? bytes : bytes / channels + (bytes % channels == 0 ? 0 : 1);
}

void Expectations::Tell(std::uint32_t queue_pair, std::int64_t bytes) const {
  if (bytes != 0 && expect_ != nullptr) expect_(queue_pair, bytes);
}

Expectations::Operation Expectations::Start(const Connection& connection, std::uint64_t bytes) {
  const auto amount = static_cast<std::int64_t>(std::min(bytes, kMaxExpected));
  const auto known = queue_pairs_.find(connection);
  if (known == queue_pairs_.end()) {
    return {.connection = connection, .shares = {}, .learns = true, .unshared = amount};
  }
  Operation operation{.connection = connection, .shares = {}};
  const std::int64_t share = amount / static_cast<std::int64_t>(known->second.size());
  if (share == 0) return operation;
  for (const std::uint32_t queue_pair : known->second) {
    operation.shares.push_back({queue_pair, share});
    Tell(queue_pair, share);
  }
  return operation;
}

void Expectations::ShareAgain(Operation& operation, std::uint32_t queue_pair) const {
  operation.shares.push_back({queue_pair, 0});
  std::int64_t left = std::exchange(operation.unshared, 0);
  for (const Share& share : operation.shares) left += share.left;
  const std::int64_t each = left / static_cast<std::int64_t>(operation.shares.size());
  for (Share& share : operation.shares) {
    Tell(share.queue_pair, each - share.left);
    share.left = each;
  }
}

void Expectations::HandlePost(Operation& operation, std::uint32_t queue_pair, std::uint64_t bytes) {
  const auto share_of = [&] {
    return std::find_if(operation.shares.begin(), operation.shares.end(),
                        [&](const Share& share) { return share.queue_pair == queue_pair; });
  };
  if (share_of() == operation.shares.end()) {
    auto known = queue_pairs_.find(operation.connection);
    if (known == queue_pairs_.end()) {
      if (queue_pairs_.size() >= kMaxConnections) return;
      known = queue_pairs_.emplace(operation.connection, std::vector{queue_pair}).first;
    }
    std::vector<std::uint32_t>& pairs = known->second;
    const bool is_new = std::find(pairs.begin(), pairs.end(), queue_pair) == pairs.end();
    if (is_new && pairs.size() >= kMaxPairs) return;
    if (is_new) pairs.push_back(queue_pair);
    if (operation.learns) ShareAgain(operation, queue_pair);
  }
  if (const auto share = share_of(); share != operation.shares.end()) {
    share->left -= static_cast<std::int64_t>(
        std::min(bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(share->left, 0))));
  }
}

void Expectations::Stop(Operation& operation) {
  for (const Share& share : operation.shares) Tell(share.queue_pair, -share.left);
  operation.shares.clear();
}

void Expectations::Forget(std::uint64_t communicator) {
  std::erase_if(queue_pairs_,
                [&](const auto& entry) { return entry.first.communicator == communicator; });
}

}  // namespace espalier::nccl
