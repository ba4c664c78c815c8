#include "controller/state/flows/port_decisions.h"

namespace espalier::controller {

void PortDecisions::Set(FlowSlot slot, std::uint32_t index, std::uint16_t port,
                        fabric::PathIndex path) {
  Flow& flow = flows_.Mutable(slot);
  Subflow& subflow = flow.subflows[index];
  if (subflow.port != 0) paths_.ReleasePort(flow.key, subflow.port);
  paths_.TakePort(flow.key, port);
  subflow.port = port;
  subflow.port_path = path;
  subflow.urgent = false;
  pushes_.MarkFlow(slot);
}

void PortDecisions::Drop(FlowSlot slot, std::uint32_t index) {
  Flow& flow = flows_.Mutable(slot);
  Subflow& subflow = flow.subflows[index];
  if (subflow.port != 0) paths_.ReleasePort(flow.key, subflow.port);
  subflow.port = 0;
  pushes_.MarkFlow(slot);
}

bool PortDecisions::Exchange(FlowSlot slot, std::uint32_t index, std::uint16_t port,
                             fabric::PathIndex path) {
  Flow& flow = flows_.Mutable(slot);
  Subflow& subflow = flow.subflows[index];
  if (!paths_.ExchangePort(flow.key, subflow.port, port)) return false;
  subflow.port = port;
  subflow.port_path = path;
  subflow.urgent = false;
  return true;
}

void PortDecisions::Correct(FlowSlot slot, std::uint32_t index, fabric::PathIndex path) {
  flows_.Mutable(slot).subflows[index].port_path = path;
}

void PortDecisions::SetUrgent(FlowSlot slot, std::uint32_t index, bool urgent) {
  flows_.Mutable(slot).subflows[index].urgent = urgent;
}

void PortDecisions::Release(FlowSlot slot, std::uint16_t port) {
  paths_.ReleasePort(flows_.At(slot).key, port);
}

void PortDecisions::SetStandby(FlowSlot slot, std::uint32_t index, std::int32_t path) {
  SetStandbyPort(slot, index, 0);
  flows_.Mutable(slot).subflows[index].standby_path = path;
}

void PortDecisions::SetStandbyPort(FlowSlot slot, std::uint32_t index, std::uint16_t port) {
  Flow& flow = flows_.Mutable(slot);
  Subflow& subflow = flow.subflows[index];
  if (subflow.standby_port != 0) paths_.ReleasePort(flow.key, subflow.standby_port);
  subflow.standby_port = port;
  if (port != 0) paths_.TakePort(flow.key, port);
}

}  // namespace espalier::controller
