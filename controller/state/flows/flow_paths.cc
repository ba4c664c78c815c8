#include "controller/state/flows/flow_paths.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

// The entry of a path id that may be new.
template <typename Entry>
Entry& EntryAt(std::vector<Entry>& owners, SubflowId subflow) {
  if (owners.size() <= subflow.Index()) owners.resize(subflow.Index() + 1);
  return owners[subflow.Index()];
}

// Adds the load of a parked subflow to the links of its path (sign 1) or takes it off (-1). `hops`:
// memory for the links.
template <typename Entry>
void AddParkedLoad(const FabricView& view, const Entry& entry, int sign,
                   std::vector<std::uint32_t>& hops, std::vector<std::int64_t>& loads) {
  hops.clear();
  view.AppendHops(entry.source, entry.destination, entry.parked, hops);
  for (const std::uint32_t link : hops) loads[link] += sign * entry.load;
}

// Appends the flow of a path id that has moved if it is one end of a known connection.
void AppendMoved(const FlowTable& flows, const FlowPaths::Owner& owner,
                 std::vector<FlowSlot>& moved) {
  if (!owner.slot || !flows.At(*owner.slot).opposite) return;
  if (moved.empty() || moved.back() != *owner.slot) moved.push_back(*owner.slot);
}

}  // namespace

FlowPaths::FlowPaths(FabricView& view, const FlowTable& flows)
    : view_(view),
      flows_(flows),
      assigner_(view,
                [this](SubflowId subflow) {
                  const Entry& entry = owners_[subflow.Index()];
                  if (!entry.owner.slot) return std::int64_t{0};
                  const auto bytes =
                      static_cast<double>(flows_.ActivityOf(*entry.owner.slot).outstanding_bytes);
                  return static_cast<std::int64_t>(bytes * static_cast<double>(entry.load) /
                                                   static_cast<double>(kLoadUnit));
                }),
      parked_loads_(view.capacities().size()) {}

SubflowId FlowPaths::Add(FlowSlot slot, std::uint32_t index) {
  const Flow& flow = flows_.At(slot);
  const std::uint32_t source = *view_.LeafOf(flow.source_leaf);
  const std::uint32_t destination = *view_.LeafOf(flow.destination_leaf);
  const std::int64_t share = ShareOf(flow, flow.subflows[index]);
  const SubflowId subflow = assigner_.Add(source, destination, share);
  EntryAt(owners_, subflow) = {{slot, index}, source, destination, share};
  return subflow;
}

void FlowPaths::Place(SubflowId subflow, std::int32_t path) {
  ++path_changes_;
  if (IsParked(subflow)) {
    ++changes_;
    Entry& entry = owners_[subflow.Index()];
    AddParkedLoad(view_, entry, -1, hops_, parked_loads_);
    entry.parked = path;
    if (path != kNoPath) AddParkedLoad(view_, entry, 1, hops_, parked_loads_);
  } else {
    Note(subflow, assigner_.PathOf(subflow), path);
    assigner_.Place(subflow, path);
  }
  AppendMoved(flows_, OwnerOf(subflow), moved_);
}

void FlowPaths::SetShare(SubflowId subflow, std::int64_t share) {
  Entry& entry = owners_[subflow.Index()];
  const std::int32_t path = assigner_.PathOf(subflow);
  ++path_changes_;
  Note(subflow, path, kNoPath);
  if (entry.parked != kNoPath) AddParkedLoad(view_, entry, -1, hops_, parked_loads_);
  entry.load = share;
  assigner_.SetShare(subflow, share);
  if (entry.parked != kNoPath) AddParkedLoad(view_, entry, 1, hops_, parked_loads_);
  Note(subflow, kNoPath, path);
}

void FlowPaths::Remove(SubflowId subflow) {
  Entry& entry = owners_[subflow.Index()];
  if (entry.parked != kNoPath) AddParkedLoad(view_, entry, -1, hops_, parked_loads_);
  entry.parked = kNoPath;
  Unreserve(subflow);
}

void FlowPaths::SetInProgress(SubflowId subflow, bool is_pinned) {
  assigner_.Pin(subflow, is_pinned);
  assigner_.SetInProgress(subflow);
}

void FlowPaths::Park(const Flow& flow) {
  for (const Subflow& subflow : flow.subflows) {
    const auto path = PathOf(subflow);
    if (!path || IsParked(subflow)) continue;
    Note(*subflow.id, path->value(), kNoPath);
    assigner_.Place(*subflow.id, kNoPath);
    Entry& entry = owners_[subflow.id->Index()];
    entry.parked = path->value();
    AddParkedLoad(view_, entry, 1, hops_, parked_loads_);
  }
}

void FlowPaths::Wake(const Flow& flow) {
  for (const Subflow& subflow : flow.subflows) {
    if (!IsParked(subflow)) continue;
    Entry& entry = owners_[subflow.id->Index()];
    AddParkedLoad(view_, entry, -1, hops_, parked_loads_);
    const std::int32_t path = std::exchange(entry.parked, kNoPath);
    Note(*subflow.id, kNoPath, path);
    assigner_.Place(*subflow.id, path);
  }
}

bool FlowPaths::IsOnUsablePath(const Subflow& subflow) const {
  if (!IsParked(subflow)) return subflow.id && assigner_.IsOnUsablePath(*subflow.id);
  const Entry& entry = owners_[subflow.id->Index()];
  std::vector<std::uint32_t> hops;
  view_.AppendHops(entry.source, entry.destination, entry.parked, hops);
  return view_.IsUsable(hops);
}

std::span<const FlowPaths::Move> FlowPaths::PlaceArrivals(std::span<const SubflowId> subflows,
                                                          const OnlineAssigner::Options& options) {
  const auto moves = assigner_.PlaceArrivals(subflows, options);
  NoteMoves(moves);
  return moves;
}

std::span<const FlowPaths::Move> FlowPaths::Rebalance(const OnlineAssigner::Options& options) {
  const auto moves = assigner_.Rebalance(options);
  NoteMoves(moves);
  return moves;
}

void FlowPaths::Take(std::span<const Move> moves) {
  for (const Move& move : moves) assigner_.Place(move.subflow, move.to);
  NoteMoves(moves);
}

void FlowPaths::NoteMoves(std::span<const Move> moves) {
  if (!moves.empty()) ++path_changes_;
  for (const Move& move : moves) {
    Note(move.subflow, move.from, move.to);
    AppendMoved(flows_, OwnerOf(move.subflow), moved_);
  }
}

SubflowId FlowPaths::Reserve(fabric::NodeId source_leaf, fabric::NodeId destination_leaf,
                             std::int32_t path, std::int64_t load) {
  const std::uint32_t source = *view_.LeafOf(source_leaf);
  const std::uint32_t destination = *view_.LeafOf(destination_leaf);
  const SubflowId subflow = assigner_.Add(source, destination, load);
  EntryAt(owners_, subflow) = {{}, source, destination, load};
  assigner_.Pin(subflow, true);
  assigner_.Place(subflow, path);
  ++path_changes_;
  Note(subflow, kNoPath, path);
  return subflow;
}

void FlowPaths::Unreserve(SubflowId subflow) {
  ++path_changes_;
  Note(subflow, assigner_.PathOf(subflow), kNoPath);
  assigner_.Remove(subflow);
}

void FlowPaths::SetBaseLoads(std::span<const std::int64_t> units) {
  assigner_.SetBaseLoads(units);
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;
  std::uint64_t digest = 0;
  for (const std::int64_t load : assigner_.base_loads()) {
    digest = (digest ^ static_cast<std::uint64_t>(load)) * kOdd;
    digest ^= digest >> 32U;
  }
  ++changes_;
  ++path_changes_;
  fingerprint_ += digest - base_digest_;
  base_digest_ = digest;
}

void FlowPaths::Register(FlowSlot slot) { pairs_[flows_.At(slot).key].push_back(slot); }

void FlowPaths::Unregister(FlowSlot slot) {
  const auto found = pairs_.find(flows_.At(slot).key);
  if (found == pairs_.end()) return;
  std::erase(found->second, slot);
  if (found->second.empty()) pairs_.erase(found);
}

void FlowPaths::Note(SubflowId subflow, std::int32_t from, std::int32_t to) {
  ++changes_;
  if (from != kNoPath) fingerprint_ -= owners_[subflow.Index()].FingerprintOn(from);
  if (to != kNoPath) fingerprint_ += owners_[subflow.Index()].FingerprintOn(to);
}

void FlowPaths::CheckInvariants() const {
  std::uint64_t fingerprint = base_digest_;
  std::vector<std::int64_t> loads(assigner_.base_loads().begin(), assigner_.base_loads().end());
  loads.resize(assigner_.Loads().size());
  std::vector<std::int64_t> parked_loads(loads.size());
  std::vector<std::uint32_t> hops;
  for (std::uint32_t number = 0; number < owners_.size(); ++number) {
    const SubflowId subflow(number);
    const std::int32_t path = assigner_.PathOf(subflow);
    const Entry& entry = owners_[subflow.Index()];
    ESPALIER_CHECK(path < 0 || entry.parked == kNoPath,
                   "parked subflow {} has path {} in the assigner", subflow.value(), path);
    if (entry.parked != kNoPath) {
      hops.clear();
      view_.AppendHops(entry.source, entry.destination, entry.parked, hops);
      for (const std::uint32_t link : hops) parked_loads[link] += entry.load;
    }
    if (path < 0) continue;
    fingerprint += entry.FingerprintOn(path);
    hops.clear();
    view_.AppendHops(entry.source, entry.destination, path, hops);
    for (const std::uint32_t link : hops) loads[link] += entry.load;
    if (!entry.owner.slot) {
      ESPALIER_CHECK(entry.load > 0, "reservation {} has load {}", subflow.value(), entry.load);
      continue;
    }
    ESPALIER_CHECK(flows_.IsOpen(*entry.owner.slot), "subflow {} belongs to a closed flow",
                   subflow.value());
    const Flow& flow = flows_.At(*entry.owner.slot);
    ESPALIER_CHECK(
        entry.owner.index < flow.subflows.size() && flow.subflows[entry.owner.index].id == subflow,
        "subflow {} is not recorded in its flow", subflow.value());
  }
  ESPALIER_CHECK(fingerprint == fingerprint_, "fingerprint {} is not the sum {}", fingerprint_,
                 fingerprint);
  ESPALIER_CHECK(loads == assigner_.Loads(), "loads of links are not the sums of the shares");
  ESPALIER_CHECK(parked_loads == parked_loads_, "loads of parked subflows are not their sums");
  for (const auto& [key, slots] : pairs_) {
    for (const FlowSlot slot : slots) {
      ESPALIER_CHECK(flows_.IsOpen(slot) && flows_.At(slot).key == key,
                     "slot {} is registered with a key that is not its flow's", slot.value());
    }
  }
  for (const FlowSlot slot : flows_.All()) {
    const Flow& flow = flows_.At(slot);
    for (const Subflow& subflow : flow.subflows) {
      ESPALIER_CHECK(!subflow.id || owners_[subflow.id->Index()].load == ShareOf(flow, subflow),
                     "subflow {} has load {}", subflow.id->value(),
                     owners_[subflow.id->Index()].load);
      ESPALIER_CHECK(subflow.port == 0 || ports_.IsTaken(flow.key, subflow.port), "port {} is free",
                     subflow.port);
      ESPALIER_CHECK(flow.is_parked == IsParked(subflow) || !PathOf(subflow),
                     "flow of subflow {} is parked: {}", subflow.id->value(), flow.is_parked);
    }
  }
}

}  // namespace espalier::controller
