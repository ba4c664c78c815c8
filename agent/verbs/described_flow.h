#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "agent/local/espalier_agent.h"
#include "agent/verbs/real_verbs.h"

namespace espalier::shim {

// Returns the flow of a queue pair that connects with these attributes, as it is announced to the
// agent: addresses, queue pairs, one path. None for what cannot be steered: datagrams, InfiniBand,
// RoCEv1, iWARP.
std::optional<espalier_flow_desc> DescribeFlow(const RealVerbs& real, const ibv_qp& pair,
                                               const ibv_qp_attr& attributes);

}  // namespace espalier::shim
