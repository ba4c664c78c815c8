#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "collective/program/program.h"
#include "collective/transport/base/transport.h"

namespace espalier::runtime {

// How a group is to do one of its collectives: what a controller has worked out for the fabric, or
// a program that somebody wrote. All ranks have the same program under the same generation.
struct CollectivePlan {
  std::shared_ptr<const program::Program> program;
  // Tells plans of one group apart; a later plan has a higher one.
  std::uint64_t generation = 0;
  // Over TCP and verbs: the port that this rank sends from on a connection, so that the fabric's
  // hash takes the path that the connection was planned on. Connections that are not named take
  // any.
  std::map<transport::Endpoint, std::uint16_t> source_ports;
};

}  // namespace espalier::runtime
