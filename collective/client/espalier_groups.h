/* Groups of libespalier-collective that are made of other groups: by a split, and of the ranks that
 * are left after a failure. Both need a communicator of espalier_comm_create without an agent's
 * plan and without `offload` (else -EOPNOTSUPP), and find each other through its store.
 * espalier_collective.h describes communicators, errors and threads, which are the same here. The
 * message of an error is at espalier_comm_error(comm), the communicator that was passed. */
#ifndef ESPALIER_GROUPS_H
#define ESPALIER_GROUPS_H

#include "collective/client/espalier_collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* This rank's number, and the number of ranks; -EINVAL for NULL. */
ESPALIER_COLLECTIVE_API int espalier_comm_rank(const espalier_comm* comm);
ESPALIER_COLLECTIVE_API int espalier_comm_size(const espalier_comm* comm);

#define ESPALIER_NO_COLOR (-1)
/* The ranks that pass the same color (0 or more) form a new group. They are numbered by their keys,
 * and by their ranks in `comm` where keys are equal. A rank that passes ESPALIER_NO_COLOR gets
 * NULL, and no error; a group of no ranks does not come to be. All ranks call it between the same
 * two calls. The new group has the medium and timeout of `comm`, and none of its plans. Both groups
 * are used and destroyed independently of each other. -EINVAL, on every rank and without effect on
 * the group: a rank passes another negative color; the message names it. */
ESPALIER_COLLECTIVE_API int espalier_comm_split(espalier_comm* comm, int color, int key,
                                                espalier_comm** part);

/* After an error that has ended the group: all ranks that are left form a new group, in their old
 * order and numbered from 0 on. `comm` stays to be destroyed. They wait for each other until all
 * have come or are known to have ended, at most wait_ms (0: the timeout of `comm`). Over verbs, and
 * for a host that has lost its power, it is not known that a rank has ended, so they wait as long.
 * All ranks get the same group: a rank that comes too late gets -ECONNABORTED, as the others went
 * on without it. `least`: with fewer ranks all get -ECONNABORTED (0: any number will do). Choose
 * more than half of the ranks if a part of them must not go on by itself.
 * If further ranks die meanwhile, the others try again without them, for wait_ms and the timeout.
 * The store must still be there: a folder, or a tcp:// store whose rank 0 lives.
 * Ranks may have been one call apart when the group ended. Agree first from which step to go on, as
 * by an allreduce with ESPALIER_MIN over the steps that the ranks have completed. */
ESPALIER_COLLECTIVE_API int espalier_comm_reform(espalier_comm* comm, uint32_t wait_ms, int least,
                                                 espalier_comm** survivors);
/* Of a group made by espalier_comm_reform: the ranks, in the group before, that are not in it. The
 * function returns how many, and writes the first `most` of them, in ascending order. Else 0. */
ESPALIER_COLLECTIVE_API int espalier_comm_lost(const espalier_comm* comm, int* ranks, int most);

#ifdef __cplusplus
}
#endif

#endif
