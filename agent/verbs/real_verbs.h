#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace espalier::shim {

// The functions of the real libibverbs, and those of the drivers' libraries (null if missing).
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
  // ibv_cmd_post_send: without a request it only makes the device check its send queue.
  int (*ring_doorbell)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;
  // mlx5dv_modify_qp_udp_sport.
  int (*set_udp_port)(ibv_qp*, std::uint16_t) = nullptr;
  // True if the kernel's driver of the device has this name; by default looked up in /sys.
  bool (*is_of_driver)(const ibv_context&, const char* driver) = nullptr;
};

// Loads the functions. Aborts the process if there is no libibverbs, as it could not work without.
RealVerbs LoadRealVerbs();

}  // namespace espalier::shim
