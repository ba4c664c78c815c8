#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace espalier::shim {

// The real libibverbs, and what else of the driver's libraries is there: null where it is not.
struct RealVerbs {
  decltype(&ibv_open_device) open_device = nullptr;
  decltype(&ibv_import_device) import_device = nullptr;
  decltype(&ibv_close_device) close_device = nullptr;
  decltype(&ibv_modify_qp) modify_qp = nullptr;
  decltype(&ibv_query_qp) query_qp = nullptr;
  decltype(&ibv_destroy_qp) destroy_qp = nullptr;
  decltype(&ibv_destroy_cq) destroy_cq = nullptr;
  decltype(&ibv_qp_to_qp_ex) qp_to_qp_ex = nullptr;
  decltype(&_ibv_query_gid_ex) query_gid = nullptr;
  decltype(&ibv_get_async_event) get_async_event = nullptr;
  decltype(&ibv_ack_async_event) ack_async_event = nullptr;
  // ibv_cmd_post_send: with no request it only tells the device to go on.
  int (*ring_doorbell)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;
  // mlx5dv_modify_qp_udp_sport.
  int (*set_udp_port)(ibv_qp*, std::uint16_t) = nullptr;
  // The kernel's driver of a device, or "" for one of software; by default from /sys.
  bool (*is_of_driver)(const ibv_context&, const char* driver) = nullptr;
};

// Ends the process where there is no libibverbs: nothing could work then.
RealVerbs LoadRealVerbs();

}  // namespace espalier::shim
