#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "collective/program/program.h"
#include "collective/transport/base/transport.h"
#include "common/base/address/ip_address.h"

namespace espalier::runtime {

// The addresses of a rank's connections, where hosts have several NICs.
struct PlanAddresses {
  // Those of connections over which this rank sends; over verbs also of those over which it only
  // receives. Connections that are not listed use the addresses of their ranks.
  struct Nics {
    IpAddress source;
    IpAddress destination;
  };
  std::map<transport::Endpoint, Nics> nics;
  std::vector<IpAddress> listen;  // TCP: further addresses of this rank, where peers connect
};

// A program and source ports for one collective of a group, computed by the controller for the
// fabric or written by hand. All ranks have the same program under the same generation.
struct CollectivePlan {
  std::shared_ptr<const program::Program> program;
  // Identifies a plan within its group; later plans have higher generations.
  std::uint64_t generation = 0;
  // TCP and verbs: the source port from which this rank sends on each connection, chosen so that
  // the fabric's hash takes the planned path. Connections that are not listed use any port.
  std::map<transport::Endpoint, std::uint16_t> source_ports;
  PlanAddresses addresses;
};

}  // namespace espalier::runtime
