#include "controller/state/flow_paths.h"

#include <algorithm>

#include "common/base/check.h"
#include "controller/routing/assignment.h"

namespace espalier::controller {

FlowPaths::FlowPaths(FabricView& view, FlowTable& flows)
    : view_(view), flows_(flows), live_(view, [this](Way way) { return BytesInFlight(way); }) {}

std::int64_t FlowPaths::BytesInFlight(Way way) const {
  const auto slot = owners_[way.Index()].owner.slot;
  if (!slot) return 0;
  return static_cast<std::int64_t>(flows_.ActivityOf(*slot).outstanding_bytes) /
         static_cast<std::int64_t>(owners_[way.Index()].ways);
}

FlowPaths::Entry& FlowPaths::NewEntry(Way way) {
  if (owners_.size() <= way.Index()) owners_.resize(way.Index() + 1);
  return owners_[way.Index()];
}

void FlowPaths::Add(FlowSlot slot, std::uint32_t index) {
  Flow& flow = flows_.At(slot);
  const std::uint32_t source = *view_.LeafOf(flow.source_leaf);
  const std::uint32_t destination = *view_.LeafOf(flow.destination_leaf);
  const auto ways = static_cast<std::uint32_t>(flow.ways.size());
  const std::int64_t share = kLoadUnit / std::int64_t{ways};
  const Way way = live_.Add(source, destination, share);
  NewEntry(way) = {{slot, index}, source, destination, ways, share};
  flow.ways[index].way = way;
}

void FlowPaths::Place(const FlowWay& way, std::int32_t path) {
  Note(*way.way, live_.PathOf(*way.way), path);
  live_.Place(*way.way, path);
}

void FlowPaths::Remove(FlowWay& way) {
  if (!way.way) return;
  Unreserve(*way.way);
  way.way.reset();
}

void FlowPaths::SetLive(const Flow& flow) {
  for (const FlowWay& way : flow.ways) {
    if (!way.way) continue;
    live_.Pin(*way.way, !flow.movable);
    live_.SetLive(*way.way);
  }
}

void FlowPaths::Hold(const Flow& flow, bool holds) {
  for (const FlowWay& way : flow.ways) {
    if (way.way) live_.Pin(*way.way, holds || !flow.movable);
  }
}

std::span<const FlowPaths::Move> FlowPaths::StartAll(std::span<const Way> ways,
                                                     const LivePaths::Options& options) {
  const auto moves = live_.StartAll(ways, options);
  for (const Move& move : moves) Note(move.way, move.from, move.to);
  return moves;
}

std::span<const FlowPaths::Move> FlowPaths::Rebalance(const LivePaths::Options& options) {
  const auto moves = live_.Rebalance(options);
  for (const Move& move : moves) Note(move.way, move.from, move.to);
  return moves;
}

void FlowPaths::Take(std::span<const Move> moves) {
  for (const Move& move : moves) {
    Note(move.way, move.from, move.to);
    live_.Place(move.way, move.to);
  }
}

FlowPaths::Way FlowPaths::Reserve(fabric::NodeId source_leaf, fabric::NodeId destination_leaf,
                                  std::int32_t path, std::int64_t load) {
  const std::uint32_t source = *view_.LeafOf(source_leaf);
  const std::uint32_t destination = *view_.LeafOf(destination_leaf);
  const Way way = live_.Add(source, destination, load);
  NewEntry(way) = {{}, source, destination, 1, load};
  live_.Pin(way, true);
  live_.Place(way, path);
  Note(way, kNoPath, path);
  return way;
}

void FlowPaths::Unreserve(Way way) {
  Note(way, live_.PathOf(way), kNoPath);
  live_.Remove(way);
}

void FlowPaths::Register(FlowSlot slot) { pairs_[flows_.At(slot).key].push_back(slot); }

void FlowPaths::Unregister(FlowSlot slot) {
  const auto found = pairs_.find(flows_.At(slot).key);
  if (found == pairs_.end()) return;
  std::erase(found->second, slot);
  if (found->second.empty()) pairs_.erase(found);
}

std::uint64_t FlowPaths::FingerprintOf(const Flow& flow, std::int32_t path) const {
  return PathFingerprint(*view_.LeafOf(flow.source_leaf), *view_.LeafOf(flow.destination_leaf),
                         path, flow.ways.size());
}

std::uint64_t FlowPaths::FingerprintOf(Way way, std::int32_t path) const {
  const Entry& entry = owners_[way.Index()];
  return PathFingerprint(entry.source, entry.destination, path, entry.ways);
}

void FlowPaths::Note(Way way, std::int32_t from, std::int32_t to) {
  ++changes_;
  if (from != kNoPath) fingerprint_ -= FingerprintOf(way, from);
  if (to != kNoPath) fingerprint_ += FingerprintOf(way, to);
}

void FlowPaths::CheckInvariants() const {
  std::uint64_t fingerprint = 0;
  std::vector<std::int64_t> loads(live_.Loads().size());
  std::vector<std::uint32_t> hops;
  for (std::uint32_t number = 0; number < owners_.size(); ++number) {
    const Way way(number);
    const std::int32_t path = live_.PathOf(way);
    if (path < 0) continue;
    const Entry& entry = owners_[way.Index()];
    fingerprint += FingerprintOf(way, path);
    hops.clear();
    view_.AppendHops(entry.source, entry.destination, path, hops);
    for (const std::uint32_t link : hops) loads[link] += entry.load;
    if (!entry.owner.slot) {
      ESPALIER_CHECK(entry.ways == 1 && entry.load > 0, "way {} reserves {} in {} ways",
                     way.value(), entry.load, entry.ways);
      continue;
    }
    ESPALIER_CHECK(flows_.IsOpen(*entry.owner.slot), "way {} is of a closed flow", way.value());
    const Flow& flow = flows_.At(*entry.owner.slot);
    ESPALIER_CHECK(entry.owner.index < flow.ways.size() && flow.ways[entry.owner.index].way == way,
                   "way {} is not its owner's", way.value());
  }
  ESPALIER_CHECK(fingerprint == fingerprint_, "fingerprint {} is not the sum {}", fingerprint_,
                 fingerprint);
  ESPALIER_CHECK(loads == live_.Loads(), "loads of links are not the sums of the shares");
  for (const auto& [key, slots] : pairs_) {
    for (const FlowSlot slot : slots) {
      ESPALIER_CHECK(flows_.IsOpen(slot) && flows_.At(slot).key == key,
                     "slot {} stands under a key that is not its flow's", slot.value());
    }
  }
  for (const FlowSlot slot : flows_.All()) {
    const Flow& flow = flows_.At(slot);
    for (const FlowWay& way : flow.ways) {
      ESPALIER_CHECK(way.port == 0 || ports_.IsTaken(flow.key, way.port), "port {} is free",
                     way.port);
    }
  }
}

}  // namespace espalier::controller
