/* libespalier-collective runs collectives between the processes of a job: in shared memory on one
 * host, and over TCP or RDMA. C ABI; links libibverbs and libcrypto 3 (OpenSSL) only.
 *
 * A communicator is one rank's membership of a group. All ranks of a group make the same calls in
 * the same order. The calling thread does the work and returns when its buffers may be used again.
 * Alternatively the offload service of the host does it, in memory that it shares with the program
 * (`offload`), or a thread of the library (espalier_post).
 * Buffers may have any alignment. Input and output are the same memory (in place) or do not
 * overlap. In place means the same address, with two exceptions: the input of an allgather is the
 * rank's own part of the output, and the output of a reduce_scatter is its own part of the input.
 *
 * Errors are negative errno values; espalier_comm_error returns the message:
 *   -EINVAL        an argument is wrong; the group is unaffected
 *   -EPROTO        the ranks make different calls, or run different versions
 *   -ECONNABORTED  a rank has died, left, given up or not come in time
 *   -EADDRINUSE    a requested port is taken
 *   -EACCES        the rank belongs to another user; the offload service may not join groups at
 *                  that address; a rank has another job key, or the group needs a key and has none
 *                  (espalier_comm_create)
 *   -EBUSY         another thread is in a call of this communicator; nothing was done
 *   -EOPNOTSUPP, -ENOMEM, -ENOENT, -EIO
 * After -EPROTO, -ECONNABORTED or -EADDRINUSE the group has ended for every rank, and later calls
 * return the same error: destroy the communicator and create another one under another name.
 * Outputs are then undefined, but memory outside of them is never written.
 *
 * Thread safety: one thread at a time for one communicator, also to test and wait for posted calls
 * (a thread that comes while another one is in a function gets -EBUSY); communicators are
 * independent. */
#ifndef ESPALIER_COLLECTIVE_H
#define ESPALIER_COLLECTIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ESPALIER_COLLECTIVE_API __attribute__((visibility("default")))
#else
#define ESPALIER_COLLECTIVE_API
#endif

typedef struct espalier_comm espalier_comm;

enum espalier_type {
  ESPALIER_F32 = 0,
  ESPALIER_F64 = 1,
  ESPALIER_F16 = 2,
  ESPALIER_BF16 = 3,
  ESPALIER_I8 = 4,
  ESPALIER_I32 = 5,
  ESPALIER_I64 = 6,
  ESPALIER_U8 = 7
};

/* Integers wrap around. An average of integers is refused (-EINVAL), as it would lose its fraction.
 * 16-bit floats are added in f32. */
enum espalier_op {
  ESPALIER_SUM = 0,
  ESPALIER_PROD = 1,
  ESPALIER_MIN = 2,
  ESPALIER_MAX = 3,
  ESPALIER_AVG = 4
};

/* Hosts: shared memory between the ranks of a host, and TCP between hosts. */
enum espalier_medium {
  ESPALIER_SHARED_MEMORY = 0,
  ESPALIER_TCP = 1,
  ESPALIER_VERBS = 2,
  ESPALIER_HOSTS = 3
};

/* Zero in every field selects the defaults. */
struct espalier_comm_options {
  uint32_t medium;      /* enum espalier_medium */
  uint32_t timeout_ms;  /* limit for the whole join, and for every call; 0: 30,000 */
  const char* address;  /* TCP: where other ranks reach this one; verbs: its RoCEv2 address;
                           NULL: the address on the route to a tcp:// store, else 127.0.0.1 */
  uint32_t connections; /* TCP, verbs: connections to each peer for large data; 0: 1 */
  uint32_t plan_port;   /* TCP: where this rank accepts the connections of plans; 0: any */
  const char* offload;  /* socket of the offload service that does the work; NULL: this process */
  const char* costs;    /* rank 0: file written by `espalier bench fit`, by which all ranks choose
                           algorithms for sizes; NULL: costs of a typical machine */
  const char* agent;    /* socket of the agent on this host, which may have plans for the group
                           ("": $ESPALIER_AGENT_SOCKET, else the default); NULL: no agent */
  const char* host;     /* hosts: ranks that give the same text share a host (read with this medium
                           only); NULL: ranks of the same address do */
};

/* Joins the group `name` of `size` ranks. They find one another through `store`: an existing folder
 * that all of them see, or "tcp://ADDRESS:PORT", where rank 0 listens while it is in the group.
 * Their data goes through shared memory, within one host, unless `medium` says otherwise.
 * A folder and a name may be used again by a later run, also if the earlier one was killed; two
 * runs at the same time need names of their own (-EADDRINUSE). -ENOENT: there is no such folder.
 * Over TCP and verbs the ranks prove to each other that they have the job's key, which is 64
 * hexadecimal digits in the file named by $ESPALIER_JOB_KEY_FILE, or in $ESPALIER_JOB_KEY, or, if
 * the store is a folder, in a file there that the first rank creates. Without a key they join at
 * loopback addresses only, unless $ESPALIER_INSECURE_GROUPS is 1. Returns when all ranks have
 * joined. options may be NULL. On an error *comm is NULL and `error` (may be NULL) receives the
 * message, cut to error_bytes.
 *
 * With `agent` in the options, `name` may be a job started by `espalier job start`. If the agents
 * of all ranks have plans for it within half of the timeout, this acts as espalier_comm_join_job.
 * If one rank has no agent, or its agent has no plan, all ranks form a plain group through the
 * store with the other options, over plain ECMP, and keep it. Without a store (NULL) they join
 * through their agents or fail. Further causes of -EINVAL: the job has another size than `size`;
 * both `offload` and `agent` are given (the job decides where its calls are done). */
ESPALIER_COLLECTIVE_API int espalier_comm_create(const char* store, const char* name, int rank,
                                                 int size,
                                                 const struct espalier_comm_options* options,
                                                 espalier_comm** comm, char* error,
                                                 size_t error_bytes);
/* Joins a job that was started by `espalier job start`, as rank `rank`. The agent on this host (its
 * socket; NULL: $ESPALIER_AGENT_SOCKET, else the default) tells who the other ranks are and which
 * plan they use, and passes on new plans of the controller. A call that a failure breaks off is
 * repeated with the new plan if every rank still has its input: the call is not in place, or is a
 * broadcast. Otherwise every rank gets -ECONNABORTED for that call, and the group continues.
 * Returns when all ranks have joined; ranks join and leave a job together. Further causes of
 * -ECONNABORTED: no agent, no such job, a missing rank. */
ESPALIER_COLLECTIVE_API int espalier_comm_join_job(const char* agent, const char* job, int rank,
                                                   uint32_t timeout_ms, espalier_comm** comm,
                                                   char* error, size_t error_bytes);
ESPALIER_COLLECTIVE_API void espalier_comm_destroy(espalier_comm* comm); /* NULL is ignored */
/* The message of the last error, of this thread's -EBUSY if its last call got that; "" before the
 * first one. Valid until the next call. */
ESPALIER_COLLECTIVE_API const char* espalier_comm_error(const espalier_comm* comm);

/* count: elements in each buffer. */
ESPALIER_COLLECTIVE_API int espalier_allreduce(espalier_comm* comm, const void* input, void* output,
                                               size_t count, int type, int op);
/* Only the root has an output; `output` of other ranks is ignored. */
ESPALIER_COLLECTIVE_API int espalier_reduce(espalier_comm* comm, const void* input, void* output,
                                            size_t count, int type, int op, int root);
ESPALIER_COLLECTIVE_API int espalier_broadcast(espalier_comm* comm, void* buffer, size_t count,
                                               int type, int root);
/* count: elements of one rank's part; the other buffer holds as many parts as there are ranks. */
ESPALIER_COLLECTIVE_API int espalier_allgather(espalier_comm* comm, const void* input, void* output,
                                               size_t count, int type);
ESPALIER_COLLECTIVE_API int espalier_reduce_scatter(espalier_comm* comm, const void* input,
                                                    void* output, size_t count, int type, int op);
ESPALIER_COLLECTIVE_API int espalier_alltoall(espalier_comm* comm, const void* input, void* output,
                                              size_t count, int type);
/* Parts of unequal sizes: rank r has counts[r] elements; a rank without elements needs no buffer.
 * `counts` has one number for each rank and is the same on all ranks (else -EPROTO). The other
 * buffer holds the parts one after another. Over TCP and verbs they go around a ring, even while a
 * plan is in force for the collective, because plans cover equal parts only. */
ESPALIER_COLLECTIVE_API int espalier_allgatherv(espalier_comm* comm, const void* input,
                                                void* output, const size_t* counts, int type);
ESPALIER_COLLECTIVE_API int espalier_reduce_scatterv(espalier_comm* comm, const void* input,
                                                     void* output, const size_t* counts, int type,
                                                     int op);
ESPALIER_COLLECTIVE_API int espalier_barrier(espalier_comm* comm);

enum espalier_collective {
  ESPALIER_ALLREDUCE = 0,
  ESPALIER_ALLGATHER = 1,
  ESPALIER_REDUCE_SCATTER = 2,
  ESPALIER_REDUCE = 3,
  ESPALIER_BROADCAST = 4,
  ESPALIER_ALLTOALL = 5,
  ESPALIER_ALLTONEXT = 6, /* in shared memory by plans alone */
  ESPALIER_BARRIER = 7,
  ESPALIER_CUSTOM = 8 /* by plans alone */
};
#define ESPALIER_NO_ROOT (-1)

/* Messages to `peer` on `channel` leave this rank from source port `port` (0: any). */
struct espalier_source_port {
  uint32_t peer;
  uint32_t channel;
  uint32_t port;
};
struct espalier_plan {
  const void* program; /* from `espalier program convert --to bytes`; the same on all ranks */
  size_t program_bytes;
  uint64_t generation; /* higher than that of earlier plans; the same on all ranks */
  const struct espalier_source_port* source_ports; /* TCP, verbs; connections not listed: any */
  size_t source_port_count;
};

/* Puts a plan in force for calls of its program's collective (and root); it replaces the previous
 * plan for that collective. All ranks call it between the same two calls. The program is verified;
 * an incorrect one gives -EINVAL and leaves the group unaffected. */
ESPALIER_COLLECTIVE_API int espalier_comm_use(espalier_comm* comm,
                                              const struct espalier_plan* plan);
/* Runs any collective, with the plan in force if there is one. count: elements of one rank's
 * buffer, or of one rank's part where the other buffer holds a part for every rank. */
ESPALIER_COLLECTIVE_API int espalier_run(espalier_comm* comm, int collective, const void* input,
                                         void* output, size_t count, int type, int op, int root);

/* Posts a call, which a thread of the library makes after the calls posted before it. Its buffers
 * belong to the library until it has ended. Blocking calls wait for all posted ones first. */
ESPALIER_COLLECTIVE_API int espalier_post(espalier_comm* comm, int collective, const void* input,
                                          void* output, size_t count, int type, int op, int root,
                                          uint64_t* request);
/* As espalier_post, with counts; `counts` may be freed when the function returns. */
ESPALIER_COLLECTIVE_API int espalier_post_allgatherv(espalier_comm* comm, const void* input,
                                                     void* output, const size_t* counts, int type,
                                                     uint64_t* request);
ESPALIER_COLLECTIVE_API int espalier_post_reduce_scatterv(espalier_comm* comm, const void* input,
                                                          void* output, const size_t* counts,
                                                          int type, int op, uint64_t* request);
/* Returns 1 if the call is done, 0 if not yet, else its error (once; then 1). */
ESPALIER_COLLECTIVE_API int espalier_test(espalier_comm* comm, uint64_t request);
/* Waits for the call; returns 0 or its error. */
ESPALIER_COLLECTIVE_API int espalier_wait(espalier_comm* comm, uint64_t request);

/* Allocates a registered buffer (in shared memory or with `offload`), page-aligned and zeroed. If
 * all ranks' buffers are registered, data goes from buffer to buffer without a copy between, and
 * offloaded calls need no staging copy. Allgathers, reduce_scatters and alltoalls (not in place)
 * need registered inputs only; a reduce also needs the root's output registered. The communicator
 * frees what remains when it is destroyed. */
ESPALIER_COLLECTIVE_API int espalier_comm_alloc(espalier_comm* comm, size_t bytes, void** memory);
ESPALIER_COLLECTIVE_API int espalier_comm_free(espalier_comm* comm, void* memory);

#ifdef __cplusplus
}
#endif

#endif
