/* The functions of libibverbs that the front replaces. Each calls the real one, or the engine if it
 * watches the device. */
#include "agent/verbs/engine_interface.h"
#include "agent/verbs/front/neighbours.h"
#include "agent/verbs/front/objects.h"
#include "agent/verbs/front/real_functions.h"

#define kVersion "IBVERBS_1.1"
#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))
#define REAL(function, caller, context) \
  ((__typeof__(&function))(uintptr_t)front_real(#function, kVersion, caller, context))

/* By this, fronts recognise each other. */
FRONT_EXPORT extern const char espalier_verbs_front[];
const char espalier_verbs_front[] = "front of Espalier";

static struct espalier_steering* steering_of(const struct espalier_engine* engine,
                                             const struct ibv_context* context) {
  return engine == NULL ? NULL : engine->find(context);
}

/* Fills the functions of the copy that has opened the device. Returns 0 if one is missing. */
static int find_functions(const struct ibv_context* context, struct espalier_real_verbs* real) {
  typedef __typeof__(real->query_gid_ex) query_gid_ex;
  typedef __typeof__(real->query_gid_type) query_gid_type;
  typedef __typeof__(real->ring_doorbell) ring_doorbell;
  typedef __typeof__(real->set_udp_port) set_udp_port;
  const int before = errno;
  const void* const copy = front_real("ibv_query_gid", kVersion, NULL, context);
  /* The library of the device's driver. */
  const void* const driver = (const void*)(uintptr_t)context->ops.post_send;
  real->modify_qp = REAL(ibv_modify_qp, NULL, context);
  real->query_qp = REAL(ibv_query_qp, NULL, context);
  real->destroy_qp = REAL(ibv_destroy_qp, NULL, context);
  real->get_async_event = REAL(ibv_get_async_event, NULL, context);
  real->ack_async_event = REAL(ibv_ack_async_event, NULL, context);
  real->query_gid = REAL(ibv_query_gid, NULL, context);
  real->query_gid_ex = (query_gid_ex)(uintptr_t)front_beside(copy, "_ibv_query_gid_ex");
  real->query_gid_type = (query_gid_type)(uintptr_t)front_beside(copy, "ibv_query_gid_type");
  real->ring_doorbell = (ring_doorbell)(uintptr_t)front_beside(copy, "ibv_cmd_post_send");
  real->set_udp_port = (set_udp_port)(uintptr_t)front_beside(driver, "mlx5dv_modify_qp_udp_sport");
  errno = before;
  return real->modify_qp != NULL && real->query_qp != NULL && real->destroy_qp != NULL &&
         real->get_async_event != NULL && real->ack_async_event != NULL && real->query_gid != NULL;
}

static struct ibv_context* opened(struct ibv_context* context, const void* by) {
  struct espalier_real_verbs real;
  const struct espalier_engine* engine;
  int before;
  if (context == NULL) return NULL;
  before = errno;
  front_note_context(context, by);
  engine = front_engine();
  if (engine != NULL && find_functions(context, &real)) engine->watch(context, &real);
  errno = before;
  return context;
}

FRONT_EXPORT struct ibv_context* ibv_open_device(struct ibv_device* device) {
  __typeof__(&ibv_open_device) const real = REAL(ibv_open_device, CALLER, NULL);
  return real == NULL ? NULL : opened(real(device), (const void*)(uintptr_t)real);
}

FRONT_EXPORT struct ibv_context* ibv_import_device(int file) {
  void* const found = front_real("ibv_import_device", "IBVERBS_1.10", CALLER, NULL);
  if (found == NULL) return NULL;
  return opened(((__typeof__(&ibv_import_device))(uintptr_t)found)(file), found);
}

FRONT_EXPORT int ibv_close_device(struct ibv_context* context) {
  const struct espalier_engine* const engine = front_open_engine();
  __typeof__(&ibv_close_device) const real = REAL(ibv_close_device, CALLER, context);
  if (real == NULL) return -1;
  if (steering_of(engine, context) != NULL) engine->forget_context(context);
  front_forget_context(context);
  return real(context);
}

FRONT_EXPORT int ibv_modify_qp(struct ibv_qp* pair, struct ibv_qp_attr* attributes, int mask) {
  const struct espalier_engine* const engine = front_open_engine();
  struct espalier_steering* const of = steering_of(engine, pair->context);
  if (of != NULL) return engine->modify_qp(of, pair, attributes, mask);
  __typeof__(&ibv_modify_qp) const real = REAL(ibv_modify_qp, CALLER, pair->context);
  return real == NULL ? ENOSYS : real(pair, attributes, mask);
}

FRONT_EXPORT int ibv_query_qp(struct ibv_qp* pair, struct ibv_qp_attr* attributes, int mask,
                              struct ibv_qp_init_attr* description) {
  const struct espalier_engine* const engine = front_open_engine();
  struct espalier_steering* const of = steering_of(engine, pair->context);
  if (of != NULL) return engine->query_qp(of, pair, attributes, mask, description);
  __typeof__(&ibv_query_qp) const real = REAL(ibv_query_qp, CALLER, pair->context);
  return real == NULL ? ENOSYS : real(pair, attributes, mask, description);
}

FRONT_EXPORT int ibv_destroy_qp(struct ibv_qp* pair) {
  const struct espalier_engine* const engine = front_open_engine();
  struct espalier_steering* const of = steering_of(engine, pair->context);
  if (of != NULL) return engine->destroy_qp(of, pair);
  __typeof__(&ibv_destroy_qp) const real = REAL(ibv_destroy_qp, CALLER, pair->context);
  return real == NULL ? ENOSYS : real(pair);
}

FRONT_EXPORT int ibv_destroy_cq(struct ibv_cq* queue) {
  const struct espalier_engine* const engine = front_open_engine();
  __typeof__(&ibv_destroy_cq) const real = REAL(ibv_destroy_cq, CALLER, queue->context);
  if (real == NULL) return ENOSYS;
  if (steering_of(engine, queue->context) != NULL) engine->forget_queue(queue);
  return real(queue);
}

FRONT_EXPORT struct ibv_qp_ex* ibv_qp_to_qp_ex(struct ibv_qp* pair) {
  const struct espalier_engine* const engine = front_open_engine();
  void* const found = front_real("ibv_qp_to_qp_ex", "IBVERBS_1.6", CALLER, pair->context);
  struct ibv_qp_ex* extended;
  if (found == NULL) return NULL;
  extended = ((__typeof__(&ibv_qp_to_qp_ex))(uintptr_t)found)(pair);
  if (extended != NULL && steering_of(engine, pair->context) != NULL) {
    engine->watch_extended(extended);
  }
  return extended;
}

FRONT_EXPORT int ibv_get_async_event(struct ibv_context* context, struct ibv_async_event* event) {
  const struct espalier_engine* const engine = front_open_engine();
  struct espalier_steering* const of = steering_of(engine, context);
  if (of != NULL) return engine->get_async_event(of, context, event);
  __typeof__(&ibv_get_async_event) const real = REAL(ibv_get_async_event, CALLER, context);
  return real == NULL ? -1 : real(context, event);
}

FRONT_EXPORT void espalier_verbs_expect(uint32_t queue_pair, int64_t bytes) {
  const struct espalier_engine* const engine = front_open_engine();
  if (engine != NULL) engine->expect(queue_pair, bytes);
}
