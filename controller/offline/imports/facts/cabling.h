#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/units.h"
#include "common/fabric/topology.h"

namespace espalier::imports {

// The internal form of all imports: what one file says about devices, their ports and the cables
// between them, each fact with its place. Readers report what is written and infer nothing that
// needs another file; JoinSources (joined.h) compares names and finds contradictions.

// 1-based; columns count bytes.
struct Place {
  int line = 1;
  int column = 1;
};

// A kHost has ports of its own, which become NICs. kCompute and kNic are parts of a box whose
// inside is known.
enum class DeviceKind { kUnknown, kSwitch, kHost, kCompute, kNic };

struct DeviceFact {
  std::string name;
  DeviceKind kind = DeviceKind::kUnknown;
  fabric::SwitchRole role = fabric::SwitchRole::kNone;
  std::string host;                  // the box that contains it
  std::string rdma_device;           // of a kNic
  std::string chassis_id;            // as LLDP advertises it
  std::vector<IpAddress> addresses;  // of the device, not of a port
  Place at;
};

struct PortFact {
  std::string device;
  std::string name;
  std::string alias;  // another name of the port
  std::optional<BitsPerSecond> rate;
  std::vector<IpAddress> addresses;
  Place at;
};

struct CableEnd {
  std::string device;
  std::string port;       // empty if the file does not name it
  bool is_alias = false;  // `port` is an alias where a port has it as one
  IpAddress address;      // none if the file does not give it
};

struct Cable {
  CableEnd a;
  CableEnd b;
  std::optional<BitsPerSecond> rate;
  // The rate is what a device advertises, and yields to any other.
  bool is_rate_weak = false;
  Place at;
};

struct Cabling {
  std::string file;
  std::vector<DeviceFact> devices;
  std::vector<PortFact> ports;
  std::vector<Cable> cables;
  // Names of switches are made of their addresses, and yield to those that other files give them.
  bool has_made_up_names = false;
  // What the reader assumed or left out: sentences with their place.
  std::vector<std::string> remarks;
};

}  // namespace espalier::imports
