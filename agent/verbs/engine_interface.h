/* The private interface between the front (agent/verbs/front), which a program loads, and the
 * engine (libespalier-engine.so), which the front opens when the program opens its first device.
 * The two are built and shipped together in one folder. C and C++. */
#ifndef ESPALIER_ENGINE_INTERFACE_H
#define ESPALIER_ENGINE_INTERFACE_H

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Differs if the structures below differ. */
#define ESPALIER_ENGINE_VERSION 1u

/* Functions of one copy of libibverbs; a process may have several. The last four are null if that
 * copy, or the driver of the device, lacks them. */
struct espalier_real_verbs {
  int (*modify_qp)(struct ibv_qp*, struct ibv_qp_attr*, int);
  int (*query_qp)(struct ibv_qp*, struct ibv_qp_attr*, int, struct ibv_qp_init_attr*);
  int (*destroy_qp)(struct ibv_qp*);
  int (*get_async_event)(struct ibv_context*, struct ibv_async_event*);
  void (*ack_async_event)(struct ibv_async_event*);
  int (*query_gid)(struct ibv_context*, uint8_t, int, union ibv_gid*);
  /* _ibv_query_gid_ex: from rdma-core 32. */
  int (*query_gid_ex)(struct ibv_context*, uint32_t, uint32_t, struct ibv_gid_entry*, uint32_t,
                      size_t);
  /* ibv_query_gid_type: sets 1 for an address of RoCEv2. */
  int (*query_gid_type)(struct ibv_context*, uint8_t, unsigned, int*);
  /* ibv_cmd_post_send: without a request it only makes the device check its send queue. */
  int (*ring_doorbell)(struct ibv_qp*, struct ibv_send_wr*, struct ibv_send_wr**);
  /* mlx5dv_modify_qp_udp_sport. */
  int (*set_udp_port)(struct ibv_qp*, uint16_t);
};

/* What steers the queue pairs of one copy of libibverbs; it lives as long as the process. */
struct espalier_steering;

/* What the engine does for the front. Thread safety: any thread may call any function. */
struct espalier_engine {
  /* The program has opened the device with functions of this copy of libibverbs. The device is
   * watched from now on, unless memory is missing. */
  void (*watch)(struct ibv_context*, const struct espalier_real_verbs*);
  /* Returns NULL if the device is not watched. */
  struct espalier_steering* (*find)(const struct ibv_context*);
  /* To be called before the program closes the device, or destroys the queue. */
  void (*forget_context)(struct ibv_context*);
  void (*forget_queue)(struct ibv_cq*);
  /* The program has asked for the functions of a queue pair of a watched device. */
  void (*watch_extended)(struct ibv_qp_ex*);
  /* For the queue pairs of watched devices. These call the real function. */
  int (*modify_qp)(struct espalier_steering*, struct ibv_qp*, struct ibv_qp_attr*, int);
  int (*query_qp)(struct espalier_steering*, struct ibv_qp*, struct ibv_qp_attr*, int,
                  struct ibv_qp_init_attr*);
  int (*destroy_qp)(struct espalier_steering*, struct ibv_qp*);
  int (*get_async_event)(struct espalier_steering*, struct ibv_context*, struct ibv_async_event*);
  /* Adds to the bytes that the program is expected to post on the queue pair with this number. */
  void (*expect)(uint32_t queue_pair, int64_t bytes);
};

/* Returns the engine of this process; NULL if it has another version. */
const struct espalier_engine* espalier_verbs_engine(uint32_t version);

/* espalier_engine.expect, for plug-ins that know what a program is about to send (agent/nccl).
 * Exported by the engine and by the front. */
void espalier_verbs_expect(uint32_t queue_pair, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
