#include "tests/agent/verbs/front/use_device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int connect_pair(const struct verbs_functions* verbs, struct ibv_qp* pair, unsigned remote) {
  struct ibv_qp_attr attributes;
  memset(&attributes, 0, sizeof(attributes));
  attributes.qp_state = IBV_QPS_RTR;
  attributes.dest_qp_num = remote;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh.dgid.raw[12] = 10;
  attributes.ah_attr.grh.dgid.raw[15] = 2;
  attributes.ah_attr.grh.dgid.raw[10] = attributes.ah_attr.grh.dgid.raw[11] = 0xff;
  const int error = verbs->modify_qp(pair, &attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
  printf("label after %u\n", attributes.ah_attr.grh.flow_label);
  return error;
}

int use_device(const struct verbs_functions* verbs) {
  struct ibv_device** const list = verbs->get_device_list(NULL);
  struct ibv_qp_init_attr description;
  struct ibv_qp_attr attributes;
  struct ibv_async_event event;
  struct ibv_pd domain;
  struct ibv_cq queue;
  struct ibv_send_wr request;
  struct ibv_send_wr* failed = NULL;
  struct ibv_context* const context =
      list == NULL || list[0] == NULL ? NULL : verbs->open_device(list[0]);
  if (context == NULL) return 1;
  memset(&description, 0, sizeof(description));
  memset(&queue, 0, sizeof(queue));
  memset(&request, 0, sizeof(request));
  description.qp_type = IBV_QPT_RC;
  domain.context = queue.context = context;
  struct ibv_qp* const pair = verbs->create_qp(&domain, &description);
  printf("bad %d\n", connect_pair(verbs, pair, 0xBAD));
  printf("good %d\n", connect_pair(verbs, pair, 18));
  printf("post %d\n", ibv_post_send(pair, &request, &failed));
  printf("query %d\n", verbs->query_qp(pair, &attributes, IBV_QP_STATE, &description));
  printf("state %d\n", (int)attributes.qp_state);
  errno = 0;
  printf("event %d", verbs->get_async_event(context, &event));
  printf(" %d\n", errno);
  printf("destroy %d %d\n", verbs->destroy_cq(&queue), verbs->destroy_qp(pair));
  printf("close %d\n", verbs->close_device(context));
  fflush(stdout);
  return 0;
}
