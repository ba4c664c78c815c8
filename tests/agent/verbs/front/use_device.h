/* What a program does with a device: from opening it to closing it, with a connection between. */
#ifndef ESPALIER_TESTS_USE_DEVICE_H
#define ESPALIER_TESTS_USE_DEVICE_H

#include <infiniband/verbs.h>

/* The functions that a program calls, however it has found them. */
struct verbs_functions {
  __typeof__(&ibv_open_device) open_device;
  __typeof__(&ibv_close_device) close_device;
  __typeof__(&ibv_create_qp) create_qp;
  __typeof__(&ibv_modify_qp) modify_qp;
  __typeof__(&ibv_query_qp) query_qp;
  __typeof__(&ibv_destroy_qp) destroy_qp;
  __typeof__(&ibv_destroy_cq) destroy_cq;
  __typeof__(&ibv_get_async_event) get_async_event;
  struct ibv_device** (*get_device_list)(int*);
};

/* Prints every result; returns 0 unless there is no device. */
int use_device(const struct verbs_functions* verbs);

/* Those to which this object is linked. */
#define LINKED_FUNCTIONS                                                                \
  {                                                                                     \
    &ibv_open_device, &ibv_close_device, &ibv_create_qp, &ibv_modify_qp, &ibv_query_qp, \
        &ibv_destroy_qp, &ibv_destroy_cq, &ibv_get_async_event, &ibv_get_device_list    \
  }

#endif
