#include "collective/runtime/calls/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>

namespace espalier::runtime {
namespace {

tl::unexpected<Error> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> CheckRoot(int root, int size) {
  if (root >= 0 && root < size) return {};
  return Refuse(fmt::format("root {} is not a rank (the group has {} ranks)", root, size));
}

// Cuts a buffer into one span for each rank.
template <typename Byte>
Result<std::vector<std::span<Byte>>> Cut(Byte* buffer, const Parts& parts, int size,
                                         reduce::DataType type) {
  const auto ranks = static_cast<std::size_t>(size);
  if (!parts.counts.empty() && parts.counts.size() != ranks) {
    return Refuse(
        fmt::format("{} counts for {} ranks (give one for each rank)", parts.counts.size(), size));
  }
  const std::size_t element = reduce::SizeOf(type);
  const auto limit = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  std::vector<std::span<Byte>> cut;
  std::size_t begin = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t count = parts.counts.empty() ? parts.count : parts.counts[rank];
    if (count > limit / element || count * element > limit - begin) {
      return Refuse(fmt::format(
          "{} elements for rank {} exceed the address space (a negative count?)", count, rank));
    }
    if (count > 0 && buffer == nullptr) {
      return Refuse(fmt::format("the buffer for {} elements of rank {} is null", count, rank));
    }
    // Without a buffer, the address is not used.
    cut.emplace_back(buffer == nullptr ? nullptr : buffer + begin, count * element);
    begin += count * element;
  }
  return cut;
}

template <typename Byte>
Result<std::span<Byte>> OwnPart(Byte* buffer, std::size_t count, reduce::DataType type) {
  auto cut = Cut(buffer, {.count = count}, 1, type);
  if (!cut) return Propagate(cut);
  return cut->front();
}

Result<void> CheckOwn(std::size_t own, std::size_t part, int rank, reduce::DataType type) {
  if (own == part) return {};
  const std::size_t element = reduce::SizeOf(type);
  return Refuse(
      fmt::format("the root, rank {}, has {} elements, but its own count is {} (both must agree)",
                  rank, own / element, part / element));
}

const std::byte* Bytes(const void* buffer) { return static_cast<const std::byte*>(buffer); }
std::byte* Bytes(void* buffer) { return static_cast<std::byte*>(buffer); }

// Refuses a peer that is not a rank, a null buffer, and a tag that is used twice.
template <typename Block>
Result<void> CheckBlocks(const std::vector<Block>& blocks, int size, std::string_view verb) {
  std::set<std::pair<int, std::uint64_t>> known;
  for (const Block& block : blocks) {
    if (block.peer < 0 || block.peer >= size) {
      return Refuse(fmt::format("{} rank {}: there is no such rank (the group has {} ranks)", verb,
                                block.peer, size));
    }
    if (!block.bytes.empty() && block.bytes.data() == nullptr) {
      return Refuse(fmt::format("{} rank {}: the buffer of {} bytes is null", verb, block.peer,
                                block.bytes.size()));
    }
    if (block.bytes.size() > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max())) {
      return Refuse(fmt::format("{} rank {}: {} bytes exceed the address space (a negative size?)",
                                verb, block.peer, block.bytes.size()));
    }
    if (known.emplace(block.peer, block.tag).second) continue;
    return Refuse(
        fmt::format("{} rank {}: tag {} is used twice in one call (give each message "
                    "between two ranks a tag of its own)",
                    verb, block.peer, block.tag));
  }
  return {};
}

struct Area {
  const std::byte* begin;
  const std::byte* end;
  bool is_written;
};

Result<void> CheckAreas(std::vector<Area> areas) {
  std::ranges::sort(areas, std::less<>(), &Area::begin);
  const std::byte* read_end = nullptr;
  const std::byte* written_end = nullptr;
  for (const Area& area : areas) {
    const bool clashes = std::less<>()(area.begin, written_end) ||
                         (area.is_written && std::less<>()(area.begin, read_end));
    if (clashes) return Refuse("a buffer that receives overlaps another buffer of the call");
    const std::byte*& end = area.is_written ? written_end : read_end;
    end = std::max(end, area.end, std::less<>());
  }
  return {};
}

}  // namespace

Result<Exchange> MakeGather(int rank, int size, const void* input, std::size_t own, void* output,
                            const Parts& parts, reduce::DataType type, int root) {
  auto checked = CheckRoot(root, size);
  if (!checked) return Propagate(checked);
  auto part = OwnPart(Bytes(input), own, type);
  if (!part) return Propagate(part);
  Exchange exchange = {.kind = ExchangeKind::kGather, .type = type, .root = root};
  if (parts.counts.empty()) exchange.count = parts.count;
  exchange.sends.push_back({.peer = root, .bytes = *part});
  if (rank != root) return exchange;
  auto all = Cut(Bytes(output), parts, size, type);
  if (!all) return Propagate(all);
  const std::size_t expected = (*all)[static_cast<std::size_t>(rank)].size();
  checked = CheckOwn(part->size(), expected, rank, type);
  if (!checked) return Propagate(checked);
  for (int peer = 0; peer < size; ++peer) {
    exchange.receives.push_back({.peer = peer, .bytes = (*all)[static_cast<std::size_t>(peer)]});
  }
  return exchange;
}

Result<Exchange> MakeScatter(int rank, int size, const void* input, const Parts& parts,
                             void* output, std::size_t own, reduce::DataType type, int root) {
  auto checked = CheckRoot(root, size);
  if (!checked) return Propagate(checked);
  auto part = OwnPart(Bytes(output), own, type);
  if (!part) return Propagate(part);
  Exchange exchange = {.kind = ExchangeKind::kScatter, .type = type, .root = root};
  if (parts.counts.empty()) exchange.count = parts.count;
  exchange.receives.push_back({.peer = root, .bytes = *part});
  if (rank != root) return exchange;
  auto all = Cut(Bytes(input), parts, size, type);
  if (!all) return Propagate(all);
  const std::size_t given = (*all)[static_cast<std::size_t>(rank)].size();
  checked = CheckOwn(part->size(), given, rank, type);
  if (!checked) return Propagate(checked);
  for (int peer = 0; peer < size; ++peer) {
    exchange.sends.push_back({.peer = peer, .bytes = (*all)[static_cast<std::size_t>(peer)]});
  }
  return exchange;
}

Result<Exchange> MakeAllToAll(int rank, int size, const void* input, const Parts& sends,
                              void* output, const Parts& receives, reduce::DataType type) {
  auto given = Cut(Bytes(input), sends, size, type);
  if (!given) return Propagate(given);
  auto got = Cut(Bytes(output), receives, size, type);
  if (!got) return Propagate(got);
  const auto own = static_cast<std::size_t>(rank);
  if ((*given)[own].size() != (*got)[own].size()) {
    const std::size_t element = reduce::SizeOf(type);
    return Refuse(fmt::format("rank {} gives itself {} elements and expects {}", rank,
                              (*given)[own].size() / element, (*got)[own].size() / element));
  }
  Exchange exchange = {.kind = ExchangeKind::kAllToAll, .type = type};
  // Each rank begins with the next one, so that not all send to the same rank first.
  for (int step = 0; step < size; ++step) {
    const int to = (rank + step) % size;
    const int from = (rank + size - step) % size;
    exchange.sends.push_back({.peer = to, .bytes = (*given)[static_cast<std::size_t>(to)]});
    exchange.receives.push_back({.peer = from, .bytes = (*got)[static_cast<std::size_t>(from)]});
  }
  return exchange;
}

Result<void> CheckExchange(const Exchange& exchange, int size, int rank) {
  auto checked = CheckBlocks(exchange.sends, size, "send to");
  if (checked) checked = CheckBlocks(exchange.receives, size, "receive from");
  if (!checked) return checked;
  std::vector<Area> areas;
  const auto own = std::ranges::find(exchange.receives, rank, &IncomingBlock::peer);
  for (const OutgoingBlock& block : exchange.sends) {
    const bool stays = block.peer == rank && own != exchange.receives.end() &&
                       own->bytes.data() == block.bytes.data();
    if (!block.bytes.empty() && !stays) {
      areas.push_back({block.bytes.data(), block.bytes.data() + block.bytes.size(), false});
    }
  }
  for (const IncomingBlock& block : exchange.receives) {
    if (block.bytes.empty()) continue;
    areas.push_back({block.bytes.data(), block.bytes.data() + block.bytes.size(), true});
  }
  return CheckAreas(std::move(areas));
}

CallSignature SignatureOf(const Exchange& exchange, std::uint32_t sequence) {
  return {.sequence = sequence,
          .type = exchange.type,
          .root = exchange.root,
          .count = exchange.count,
          .bounds = exchange.element_bytes,
          .exchange = exchange.kind};
}

}  // namespace espalier::runtime
