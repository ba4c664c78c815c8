/* A library that is linked with a copy of libibverbs of its own, as Python packages have. */
#include "tests/agent/verbs/front/use_device.h"

int use_own_copy(void);
int use_own_copy(void) {
  static const struct verbs_functions verbs = LINKED_FUNCTIONS;
  return use_device(&verbs);
}
