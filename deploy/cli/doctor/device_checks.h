#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/address/ip_address.h"
#include "deploy/cli/doctor/finding.h"
#include "deploy/cli/doctor/host_view.h"

namespace espalier::doctor {

// How each RDMA device's source ports can be chosen, when it connects and later, by a trial.
void CheckDevices(const HostView& view, Findings& findings);
// Which addresses each device can send RoCEv2 from, and whether NCCL_IB_GID_INDEX names one.
void CheckGids(const HostView& view, Findings& findings);
// Whether each port of a device is up, and its rate.
void CheckPorts(const HostView& view, Findings& findings);
// Whether interfaces have room for RDMA packets of 4,096 bytes.
void CheckMtu(const HostView& view, Findings& findings);
// How interfaces with several uplinks (bonds, mlx5 LAG) choose among them.
void CheckUplinks(const HostView& view, Findings& findings);

// The RDMA devices of the machine.
std::vector<std::string> RdmaDevices(const HostView& view);
// The numbers of the ports of a device.
std::vector<std::string> PortsOf(const HostView& view, const std::string& device);
// The addresses from which the machine can send RoCEv2 through switches, by network interface;
// bonds in place of their members.
std::map<std::string, std::set<IpAddress>> RdmaAddresses(const HostView& view);
// The network interfaces from which the machine can send RoCEv2, as above, sorted.
std::vector<std::string> RdmaInterfaces(const HostView& view);

}  // namespace espalier::doctor
