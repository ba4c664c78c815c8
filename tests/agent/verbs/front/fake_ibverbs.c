/* A libibverbs with one device, which is also its driver. FAKE_RELEASE is the release of rdma-core
 * whose functions and symbol versions it has, and FAKE_COPY its name: it ends the program if it
 * gets an object of another copy. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char copy[] = FAKE_COPY;

int fake_number(void);
int fake_number(void) { return FAKE_RELEASE; }

struct fake_context {
  struct ibv_context context;
  const char* made_by;
};
static struct ibv_device device;

static void check(const struct ibv_context* context) {
  if (((const struct fake_context*)(const void*)context)->made_by == copy) return;
  fprintf(stderr, "copy %s got an object of another copy\n", copy);
  abort();
}

static int post_send(struct ibv_qp* pair, struct ibv_send_wr* request,
                     struct ibv_send_wr** failed) {
  (void)request;
  (void)failed;
  check(pair->context);
  return 0;
}

static int poll_cq(struct ibv_cq* queue, int entries, struct ibv_wc* completions) {
  (void)entries;
  (void)completions;
  check(queue->context);
  return 0;
}

struct ibv_device** ibv_get_device_list(int* count) {
  struct ibv_device** const list = calloc(2, sizeof(*list));
  strcpy(device.name, "fake0");
  list[0] = &device;
  if (count != NULL) *count = 1;
  return list;
}
void ibv_free_device_list(struct ibv_device** list) { free(list); }

struct ibv_context* ibv_open_device(struct ibv_device* of) {
  struct fake_context* const made = calloc(1, sizeof(*made));
  made->context.device = of;
  made->context.ops.post_send = post_send;
  made->context.ops.poll_cq = poll_cq;
  made->made_by = copy;
  return &made->context;
}

int ibv_close_device(struct ibv_context* context) {
  check(context);
  free(context);
  return 0;
}

struct ibv_qp* ibv_create_qp(struct ibv_pd* domain, struct ibv_qp_init_attr* description) {
  struct ibv_qp_ex* const made = calloc(1, sizeof(*made));
  check(domain->context);
  made->qp_base.context = domain->context;
  made->qp_base.qp_num = 17;
  made->qp_base.qp_type = description->qp_type;
  return &made->qp_base;
}

/* Prints what it is asked, so that a test sees the label. */
int ibv_modify_qp(struct ibv_qp* pair, struct ibv_qp_attr* attributes, int mask) {
  check(pair->context);
  if ((mask & IBV_QP_AV) != 0) {
    printf("copy %s label %u\n", copy, attributes->ah_attr.grh.flow_label);
    fflush(stdout);
  }
  if (attributes->dest_qp_num == 0xBAD) return ECONNREFUSED;
  pair->state = attributes->qp_state;
  return 0;
}

int ibv_query_qp(struct ibv_qp* pair, struct ibv_qp_attr* attributes, int mask,
                 struct ibv_qp_init_attr* description) {
  (void)mask;
  check(pair->context);
  memset(attributes, 0, sizeof(*attributes));
  memset(description, 0, sizeof(*description));
  attributes->qp_state = pair->state;
  description->cap.max_send_wr = 16;
  return 0;
}

int ibv_destroy_qp(struct ibv_qp* pair) {
  check(pair->context);
  free(pair);
  return 0;
}

int ibv_destroy_cq(struct ibv_cq* queue) {
  check(queue->context);
  return EBUSY;
}

int ibv_get_async_event(struct ibv_context* context, struct ibv_async_event* event) {
  (void)event;
  check(context);
  errno = EINTR;
  return -1;
}
void ibv_ack_async_event(struct ibv_async_event* event) { (void)event; }

int ibv_query_gid(struct ibv_context* context, uint8_t port, int index, union ibv_gid* address) {
  static const uint8_t kAddress[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  (void)port;
  (void)index;
  check(context);
  memcpy(address->raw, kAddress, sizeof(kAddress));
  return 0;
}

int ibv_query_gid_type(struct ibv_context* context, uint8_t port, unsigned index, int* type);
int ibv_query_gid_type(struct ibv_context* context, uint8_t port, unsigned index, int* type) {
  (void)port;
  (void)index;
  check(context);
  *type = 1;
  return 0;
}

struct ibv_qp_ex* ibv_qp_to_qp_ex(struct ibv_qp* pair) {
  check(pair->context);
  return NULL;
}

#if FAKE_RELEASE >= 32
int _ibv_query_gid_ex(struct ibv_context* context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry* entry, uint32_t flags, size_t bytes) {
  (void)flags;
  (void)bytes;
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  return ibv_query_gid(context, (uint8_t)port, (int)index, &entry->gid);
}

struct ibv_context* ibv_import_device(int file) {
  (void)file;
  errno = EOPNOTSUPP;
  return NULL;
}
#endif
