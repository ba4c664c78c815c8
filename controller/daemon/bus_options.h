#pragma once

#include "common/bus/zmq_router_bus.h"
#include "controller/daemon/configuration.h"

namespace espalier::controller {

// How the controller's bus listens for agents. The keys must outlive the bus, which asks them.
io::ZmqRouterOptions BusOptions(const Configuration& config, const Keys& keys);

}  // namespace espalier::controller
