#include "controller/state/edge_reservations.h"

#include <utility>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

constexpr std::uint64_t kFirstNumber = std::uint64_t{1} << 63U;

}  // namespace

EdgeName EdgeReservations::Open(AgentId agent, EdgeReservation edge) {
  const EdgeName name{agent, wire::LocalFlowId(kFirstNumber + made_++)};
  edge.subflow =
      flow_paths_.Reserve(edge.source_leaf, edge.destination_leaf, edge.path.value(), edge.load);
  flows_.KeepJob(edge.job);
  edges_.emplace(name, edge);
  if (counts_.size() <= agent.Index()) counts_.resize(agent.Index() + 1);
  ++counts_[agent.Index()];
  return name;
}

void EdgeReservations::Close(const EdgeName& name) {
  const auto found = edges_.find(name);
  ESPALIER_CHECK(found != edges_.end(), "agent={} edge={} is not open", name.agent.value(),
                 name.number.value());
  flow_paths_.Unreserve(found->second.subflow);
  flows_.ReleaseJob(found->second.job);
  edges_.erase(found);
  --counts_[name.agent.Index()];
}

void EdgeReservations::CheckInvariants() const {
  for (const auto& [name, edge] : edges_) {
    ESPALIER_CHECK(!flow_paths_.OwnerOf(edge.subflow).slot, "edge subflow {} belongs to a flow",
                   edge.subflow.value());
    ESPALIER_CHECK(flow_paths_.assigner().PathOf(edge.subflow) == edge.path.value(),
                   "edge {} has left its path", name.number.value());
    ESPALIER_CHECK(flow_paths_.ports().IsTaken(edge.key, edge.source_port), "port {} is free",
                   edge.source_port);
  }
  std::size_t reserved = 0;
  for (std::uint32_t i = 0; i < flow_paths_.owner_count(); ++i) {
    const SubflowId subflow(i);
    const bool is_placed = flow_paths_.assigner().PathOf(subflow) >= 0;
    reserved += is_placed && !flow_paths_.OwnerOf(subflow).slot ? 1 : 0;
  }
  ESPALIER_CHECK(reserved == edges_.size(), "{} edges have {} reservations", edges_.size(),
                 reserved);
}

}  // namespace espalier::controller
