/* Another library that replaces a function of libibverbs, as profilers do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

int ibv_modify_qp(struct ibv_qp* pair, struct ibv_qp_attr* attributes, int mask) {
  __typeof__(&ibv_modify_qp) next = NULL;
  *(void**)&next = dlvsym(RTLD_NEXT, "ibv_modify_qp", "IBVERBS_1.1");
  printf("interposed\n");
  return next(pair, attributes, mask);
}
