#pragma once

#include <infiniband/verbs.h>

namespace espalier::shim {

// Stands in for the program's queue pair in calls during a drain. libibverbs writes the state of
// the device into the queue pair that it is given, and programs read it there (UCX before each
// post). Only Soft RoCE drains, and its driver needs no more of a queue pair to change or query it.
inline ibv_qp StandInOf(const ibv_qp& pair) {
  ibv_qp other = {};
  other.context = pair.context;
  other.pd = pair.pd;
  other.send_cq = pair.send_cq;
  other.recv_cq = pair.recv_cq;
  other.srq = pair.srq;
  other.handle = pair.handle;
  other.qp_num = pair.qp_num;
  other.state = pair.state;
  other.qp_type = pair.qp_type;
  return other;
}

}  // namespace espalier::shim
