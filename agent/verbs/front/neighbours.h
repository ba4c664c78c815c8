/* The files beside the front: the engine, and the fronts under the names of other libraries.
 * Thread-safe. */
#ifndef ESPALIER_FRONT_NEIGHBOURS_H
#define ESPALIER_FRONT_NEIGHBOURS_H

#include "agent/verbs/engine_interface.h"
#include "agent/verbs/front/system.h"

/* Whether the front passes on all calls: in privileged programs (setuid, file capabilities), with
 * ESPALIER_VERBS=off, and if a file named "off" lies beside the front. */
int front_is_off(void);

/* Opens a file beside the front; NULL: there is none, or it cannot be loaded here. */
void* front_open_neighbour(const char* file);

/* Returns the engine, which the first call opens; NULL if the front is off or the engine cannot be
 * loaded. With ESPALIER_VERBS_VERBOSE the first failure is printed on standard error. */
const struct espalier_engine* front_engine(void);

/* Returns the engine if front_engine has opened it. */
const struct espalier_engine* front_open_engine(void);

#endif
