#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/offline/imports/facts/cabling.h"

namespace espalier::imports {

// Where a fact stands: in which of the joined files, and where there.
struct Source {
  std::size_t file = 0;
  Place at;
};

struct Device {
  std::string name;  // as the first file writes it
  DeviceKind kind = DeviceKind::kUnknown;
  fabric::SwitchRole role = fabric::SwitchRole::kNone;
  std::string host;
  std::string rdma_device;
  std::vector<IpAddress> addresses;
  std::optional<Source> kind_at;
  std::optional<Source> role_at;
};

struct JoinedEnd {
  std::size_t device = 0;
  std::string port;  // empty if no file names it
  IpAddress address;
};

struct JoinedCable {
  JoinedEnd a;
  JoinedEnd b;
  std::optional<BitsPerSecond> rate;
  Source at;
};

struct Joined {
  std::vector<Device> devices;  // in the order in which files name them
  std::vector<JoinedCable> cables;
  std::vector<std::string> remarks;
  std::vector<std::string> assumptions;
};

// The form in which names of devices are compared: in small letters and without the domain.
// Addresses stay whole.
std::string ComparedName(std::string_view name);

// Joins the facts of several files. Devices are one if their names are equal without case and
// domain, ports if name or alias are equal (or the address, for an end without a port). A cable
// that both ends report, or several files, is one. Where each end names only its own port (as LLDP
// of SONiC, which sends aliases), two reports are one cable if they are the only ones between the
// devices, which is an assumption.
// Errors: kInvalidArgument with all contradictions, at most 16, one a line, each with both places:
// a port with two neighbours, a cable listed twice in one direction, two kinds or roles of a
// device, two domains or chassis ids of a name, two rates of a cable, two addresses of a port, an
// address of two ports, a device cabled to itself, and ends that cannot be told apart. O(facts x
// log).
Result<Joined> JoinSources(std::span<const Cabling> sources);

}  // namespace espalier::imports
