/* An engine of another version. */
#include <stddef.h>
#include <stdint.h>

const void* espalier_verbs_engine(uint32_t version);
const void* espalier_verbs_engine(uint32_t version) {
  (void)version;
  return NULL;
}
