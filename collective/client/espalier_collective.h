/* libespalier-collective: collectives between the processes of a job, over shared memory on one
 * host and over TCP or RDMA. C ABI; needs libibverbs and libcrypto 3 (OpenSSL), nothing else.
 *
 * A communicator is one rank's membership of a group. All ranks of a group make the same calls in
 * the same order. The calling thread does the work and returns when its buffers may be used again;
 * or an engine on the host does it, in memory that it shares with the program (`offload`); or a
 * thread of the library (espalier_post).
 * Buffers may have any alignment; input and output are the same memory (in place) or do not
 * overlap. In place means the same address, except that the input of an allgather is the rank's
 * own part of the output, and the output of a reduce_scatter the rank's own part of the input.
 *
 * Errors are negative errno values; espalier_comm_error has the words:
 *   -EINVAL        an argument is wrong; nothing has happened
 *   -EPROTO        the ranks make different calls, or are of different versions
 *   -ECONNABORTED  a rank has died, has left, has given up or does not come in time
 *   -EADDRINUSE    a port that was asked for is taken
 *   -EACCES        the rank is another user's; the engine does not join groups there; a rank has
 *                  another job key, or the group needs one and has none (espalier_comm_create)
 *   -EOPNOTSUPP, -ENOMEM, -ENOENT, -EIO
 * After -EPROTO, -ECONNABORTED or -EADDRINUSE the group is of no more use to any rank, and every
 * later call gives the same error: destroy it and make another, under another name. Outputs are
 * then undefined, but nothing outside of them is ever written.
 *
 * Thread safety: one thread at a time for one communicator; communicators are independent. */
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

/* Integers wrap around, their average is truncated. 16-bit floats are added in f32. */
enum espalier_op {
  ESPALIER_SUM = 0,
  ESPALIER_PROD = 1,
  ESPALIER_MIN = 2,
  ESPALIER_MAX = 3,
  ESPALIER_AVG = 4
};

enum espalier_medium { ESPALIER_SHARED_MEMORY = 0, ESPALIER_TCP = 1, ESPALIER_VERBS = 2 };

/* All zeros: the defaults. */
struct espalier_comm_options {
  uint32_t medium;      /* enum espalier_medium */
  uint32_t timeout_ms;  /* of joining and of every call; 0: 30,000 */
  const char* address;  /* TCP: where the others reach this rank; verbs: its RoCEv2 address;
                           NULL: 127.0.0.1 */
  uint32_t connections; /* TCP: to each peer, for large data; 0: 1 */
  uint32_t plan_port;   /* TCP: where this rank takes the connections of plans; 0: any */
  const char* offload;  /* socket of the engine that does the work; NULL: this process does it */
  const char* costs;    /* rank 0: file that `espalier bench fit` wrote, by which all ranks choose
                           algorithms for sizes; NULL: costs of a usual machine */
  const char* agent;    /* socket of the agent on this host ("": $ESPALIER_AGENT_SOCKET, else the
                           default), which may have plans for the group; NULL: none is asked */
};

/* Joins the group `name` of `size` ranks, which find one another through `store`: a folder that all
 * of them see, or "tcp://ADDRESS:PORT", where rank 0 listens for as long as it is in the group.
 * Over TCP and verbs the ranks prove to each other that they have the job's key: 64 hexadecimal
 * digits in the file that $ESPALIER_JOB_KEY_FILE names, or in $ESPALIER_JOB_KEY; where the store is
 * a folder, in a file in it that the first rank makes. Without a key they meet at loopback
 * addresses only, unless $ESPALIER_INSECURE_GROUPS is 1. Returns when all have come. options may be
 * NULL. On an error its words are put into `error` (cut to error_bytes; may be NULL) and *comm is
 * NULL.
 *
 * With `agent` in the options, `name` is a job that `espalier job start` has started, or not. Where
 * the agents of all ranks have plans for it within half of the timeout, this is
 * espalier_comm_join_job; where one rank has no agent, or its agent no plan, all ranks form a plain
 * group through the store by the other options, over plain ECMP, and stay with it. With no store
 * (NULL) they meet by what the agents say or not at all. -EINVAL, too: a job of another size than
 * `size`; `offload` beside `agent`, as the job says where its calls are done. */
ESPALIER_COLLECTIVE_API int espalier_comm_create(const char* store, const char* name, int rank,
                                                 int size,
                                                 const struct espalier_comm_options* options,
                                                 espalier_comm** comm, char* error,
                                                 size_t error_bytes);
/* Joins as that rank of a job that `espalier job start` has started: the agent on this host (its
 * socket; NULL: $ESPALIER_AGENT_SOCKET, else the default) says who the others are and by which plan
 * they work together, now and when the controller has a new one. Calls that a failure breaks off
 * are done again by the new plan where every rank still has its input (not in place); else every
 * rank gets -ECONNABORTED for it, and the group goes on. Returns when all ranks have come; they
 * begin and end together. -ECONNABORTED, too: no agent, no such job, a rank that does not come. */
ESPALIER_COLLECTIVE_API int espalier_comm_join_job(const char* agent, const char* job, int rank,
                                                   uint32_t timeout_ms, espalier_comm** comm,
                                                   char* error, size_t error_bytes);
ESPALIER_COLLECTIVE_API void espalier_comm_destroy(espalier_comm* comm); /* NULL is ignored */
/* The words of the last error; "" before the first. Valid until the next call. */
ESPALIER_COLLECTIVE_API const char* espalier_comm_error(const espalier_comm* comm);

/* count: elements in each buffer. */
ESPALIER_COLLECTIVE_API int espalier_allreduce(espalier_comm* comm, const void* input, void* output,
                                               size_t count, int type, int op);
/* Only the root has an output; the others' is ignored. */
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
/* Parts of unequal sizes: counts[r] is the elements of rank r's, which may be none (it then needs
 * no buffer). `counts` has as many numbers as there are ranks, the same on all of them (else
 * -EPROTO); the other buffer holds the parts one after another. Over TCP they go around a ring,
 * also where a plan is in force for the collective, as plans know equal parts only. */
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
  ESPALIER_ALLTONEXT = 6, /* by plans alone */
  ESPALIER_BARRIER = 7,
  ESPALIER_CUSTOM = 8 /* by plans alone */
};
#define ESPALIER_NO_ROOT (-1)

/* Messages to `peer` on `channel` leave this rank from `port` (0: any). */
struct espalier_source_port {
  uint32_t peer;
  uint32_t channel;
  uint32_t port;
};
struct espalier_plan {
  const void* program; /* its bytes (`espalier program convert --to bytes`); all ranks the same */
  size_t program_bytes;
  uint64_t generation; /* higher than that of plans before it; all ranks the same */
  const struct espalier_source_port* source_ports; /* TCP; of connections not named: any */
  size_t source_port_count;
};

/* From now on calls of the program's collective (and root) go by the plan, in place of one for the
 * same collective before. All ranks call it between the same two calls. The program is verified.
 * -EINVAL, also for a program that is not right: nothing has happened. */
ESPALIER_COLLECTIVE_API int espalier_comm_use(espalier_comm* comm,
                                              const struct espalier_plan* plan);
/* A call of any kind, by the plan where there is one. count: elements of one rank's buffer, or of
 * one rank's part where the other buffer holds as many parts as there are ranks. */
ESPALIER_COLLECTIVE_API int espalier_run(espalier_comm* comm, int collective, const void* input,
                                         void* output, size_t count, int type, int op, int root);

/* Posts a call, which a thread of the library makes after those that were posted before; buffers
 * are the library's until it has ended. Blocking calls come after all that is posted. */
ESPALIER_COLLECTIVE_API int espalier_post(espalier_comm* comm, int collective, const void* input,
                                          void* output, size_t count, int type, int op, int root,
                                          uint64_t* request);
/* With counts, which may go when the function returns. */
ESPALIER_COLLECTIVE_API int espalier_post_allgatherv(espalier_comm* comm, const void* input,
                                                     void* output, const size_t* counts, int type,
                                                     uint64_t* request);
ESPALIER_COLLECTIVE_API int espalier_post_reduce_scatterv(espalier_comm* comm, const void* input,
                                                          void* output, const size_t* counts,
                                                          int type, int op, uint64_t* request);
/* 1: it is done; 0: not yet; else its error, once. */
ESPALIER_COLLECTIVE_API int espalier_test(espalier_comm* comm, uint64_t request);
/* 0 when it is done, or its error. */
ESPALIER_COLLECTIVE_API int espalier_wait(espalier_comm* comm, uint64_t request);

/* A registered buffer (in shared memory, or offloaded), page-aligned and zero: calls where all
 * ranks' buffers are in such memory go straight from buffer to buffer, and offloaded ones copy
 * nothing of their own. Of allgathers, reduce-scatters and alltoalls (not in place) the inputs are
 * enough; of a reduce these and the root's output. Goes with the communicator. */
ESPALIER_COLLECTIVE_API int espalier_comm_alloc(espalier_comm* comm, size_t bytes, void** memory);
ESPALIER_COLLECTIVE_API int espalier_comm_free(espalier_comm* comm, void* memory);

#ifdef __cplusplus
}
#endif

#endif
