#include "controller/offline/damage/path_exchange.h"

#include <cstdint>
#include <map>

namespace espalier::offline {

using controller::Clos;
using controller::FabricView;
using controller::kNoLink;
using controller::kNoPath;
using controller::OnlineAssigner;
using controller::SubflowId;

namespace {

// The path of a subflow over the spine of another one; kNoPath: no usable one.
std::int32_t PathLike(const FabricView& view, const OnlineAssigner& assigner, SubflowId subflow,
                      SubflowId other) {
  const Clos& clos = *view.clos();
  const std::uint32_t spine =
      clos.SpineOf(assigner.SourceOf(other), assigner.DestinationOf(other), assigner.PathOf(other));
  const std::uint32_t source = assigner.SourceOf(subflow);
  const std::uint32_t destination = assigner.DestinationOf(subflow);
  const std::uint32_t hops[] = {clos.up[source * clos.spines + spine],
                                clos.down[destination * clos.spines + spine]};
  if (hops[0] == kNoLink || hops[1] == kNoLink || !view.IsUsable(hops)) return kNoPath;
  return clos.PathThrough(source, destination, spine);
}

}  // namespace

std::vector<OnlineAssigner::Move> ExchangeSpines(const FabricView& view, OnlineAssigner& assigner,
                                                 SubflowId a, SubflowId b,
                                                 std::span<const SubflowId> stay,
                                                 const OnlineAssigner::Options& options) {
  const std::int32_t for_a = PathLike(view, assigner, a, b);
  const std::int32_t for_b = PathLike(view, assigner, b, a);
  if (for_a == kNoPath || for_b == kNoPath || for_a == assigner.PathOf(a)) return {};
  std::vector<OnlineAssigner::Move> moves{{a, assigner.PathOf(a), for_a},
                                          {b, assigner.PathOf(b), for_b}};
  assigner.Place(a, for_a);
  assigner.Place(b, for_b);
  for (const SubflowId subflow : stay) assigner.Pin(subflow, true);
  const auto room = assigner.Rebalance(options);
  moves.insert(moves.end(), room.begin(), room.end());
  for (const SubflowId subflow : stay) assigner.Pin(subflow, false);
  return moves;
}

void TakeBack(OnlineAssigner& assigner, std::span<const OnlineAssigner::Move> moves) {
  std::map<SubflowId, std::int32_t> before;
  for (const OnlineAssigner::Move& move : moves) before.try_emplace(move.subflow, move.from);
  for (const auto& [subflow, path] : before) assigner.Place(subflow, path);
}

}  // namespace espalier::offline
