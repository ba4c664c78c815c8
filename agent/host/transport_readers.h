#pragma once

#include "agent/flows/transport_state.h"
#include "agent/host/nic_watch.h"

namespace espalier::agent {

// Reads the kernel's TCP sockets, and the counters of the RDMA devices of these NICs. What this
// host does not have is logged and read as nothing. The NICs must outlive the result.
TransportReaders MakeTransportReaders(const NicWatch& nics);

}  // namespace espalier::agent
