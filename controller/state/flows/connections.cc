#include "controller/state/flows/connections.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "common/fabric/topology.h"

namespace espalier::controller {
namespace {

constexpr int kLongestPause = 64;  // calls of TakeWanted

}  // namespace

std::size_t Connections::HashEnd::operator()(const End& end) const {
  const std::hash<IpAddress> hash;
  const std::uint64_t numbers = std::uint64_t{end.local_qpn} << 32U | end.remote_qpn;
  return hash(end.source) ^ std::rotl(hash(end.destination), 17) ^
         static_cast<std::size_t>(numbers * 0x9E37'79B9'7F4A'7C15 >> 20U);
}

Connections::End Connections::EndOf(const Flow& flow) {
  return {flow.source_address, flow.destination_address, flow.local_qpn, flow.remote_qpn};
}

const std::string& Connections::HostOf(const Flow& flow) const {
  return fabric::HostOf(topology_.node(flow.key.destination));
}

void Connections::SetUnpaired(FlowSlot slot) {
  Unpaired& at_host = unpaired_[HostOf(flows_.At(slot))];
  at_host.flows.insert(slot);
  at_host.wait = 0;
  at_host.pause = 1;
}

void Connections::SetPaired(FlowSlot slot) {
  const auto at_host = unpaired_.find(HostOf(flows_.At(slot)));
  if (at_host == unpaired_.end()) return;
  at_host->second.flows.erase(slot);
  if (at_host->second.flows.empty()) unpaired_.erase(at_host);
}

std::optional<FlowSlot> Connections::Open(FlowSlot slot) {
  const Flow& flow = flows_.At(slot);
  if (flow.local_qpn == 0 || flow.remote_qpn == 0) return std::nullopt;
  End end = EndOf(flow);
  if (!ends_.try_emplace(end, slot).second) return std::nullopt;
  std::swap(end.source, end.destination);
  std::swap(end.local_qpn, end.remote_qpn);
  const auto found = ends_.find(end);
  if (found == ends_.end() || found->second == slot) {
    SetUnpaired(slot);
    return std::nullopt;
  }
  SetPaired(found->second);
  return found->second;
}

std::optional<FlowSlot> Connections::Close(FlowSlot slot) {
  const Flow& flow = flows_.At(slot);
  const auto found = ends_.find(EndOf(flow));
  if (found == ends_.end() || found->second != slot) return std::nullopt;
  ends_.erase(found);
  if (!flow.opposite) {
    SetPaired(slot);
  } else {
    SetUnpaired(*flow.opposite);
  }
  return flow.opposite;
}

std::vector<wire::QueuePair> Connections::TakeWanted(const std::string& host) {
  std::vector<wire::QueuePair> wanted;
  const auto at_host = unpaired_.find(host);
  if (at_host == unpaired_.end()) return wanted;
  Unpaired& unpaired = at_host->second;
  if (unpaired.wait > 0) {
    --unpaired.wait;
    return wanted;
  }
  unpaired.wait = unpaired.pause - 1;
  unpaired.pause = std::min(2 * unpaired.pause, kLongestPause);
  for (const FlowSlot slot : unpaired.flows) {
    if (wanted.size() == kMostWanted) break;
    const Flow& flow = flows_.At(slot);
    wanted.push_back({.address = flow.destination_address, .number = flow.remote_qpn});
  }
  return wanted;
}

}  // namespace espalier::controller
