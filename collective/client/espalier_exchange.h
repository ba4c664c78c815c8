/* Calls of libespalier-collective whose data goes straight from rank to rank: gathers, scatters,
 * alltoalls in unequal parts, messages with tags, and reductions by functions of the program; and
 * allreduces of several buffers. espalier_collective.h describes communicators, errors and threads,
 * which are the same here.
 *
 * They work over every medium, without plans. Groups that a controller's job or the offload service
 * serves (`agent`, `offload`, espalier_comm_join_job) have the collective ones as far as the job's
 * calls run in the program, but no messages (-EOPNOTSUPP).
 *
 * Further causes of errors:
 *   -EINVAL  a peer or root that is not a rank, a size beyond the address space (as a negative one
 *            is), a tag that one call uses twice with a peer, or overlapping buffers; nothing has
 *            happened on this rank, but the other ranks wait for it in their call
 *   -EPROTO  a rank sends another number of elements than its receiver expects; the message names
 *            both ranks and both numbers. Nothing outside of the part is written. */
#ifndef ESPALIER_EXCHANGE_H
#define ESPALIER_EXCHANGE_H

#include "collective/client/espalier_collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The root gets `count` elements of every rank, in the order of the ranks. `output` is read at the
 * root only; the root's input may be its own part of the output. */
ESPALIER_COLLECTIVE_API int espalier_gather(espalier_comm* comm, const void* input, void* output,
                                            size_t count, int type, int root);
/* The same with unequal parts: `count` elements of this rank, and at the root one count for each
 * rank (`counts` and `output` are read there only). A rank without elements needs no buffer. */
ESPALIER_COLLECTIVE_API int espalier_gatherv(espalier_comm* comm, const void* input, size_t count,
                                             void* output, const size_t* counts, int type,
                                             int root);
/* Every rank gets its part of the root's input, `count` elements. `input` is read at the root only;
 * the root's output may be its own part of the input. */
ESPALIER_COLLECTIVE_API int espalier_scatter(espalier_comm* comm, const void* input, void* output,
                                             size_t count, int type, int root);
/* The same with unequal parts; `counts` and `input` are read at the root only. */
ESPALIER_COLLECTIVE_API int espalier_scatterv(espalier_comm* comm, const void* input,
                                              const size_t* counts, void* output, size_t count,
                                              int type, int root);
/* This rank gives send_counts[r] elements to rank r and gets receive_counts[r] from it. The parts
 * lie one after another, and the buffers do not overlap. */
ESPALIER_COLLECTIVE_API int espalier_alltoallv(espalier_comm* comm, const void* input,
                                               const size_t* send_counts, void* output,
                                               const size_t* receive_counts, int type);

/* A message of this rank to `peer`, or from it. */
struct espalier_message {
  void* data; /* not written if it is sent */
  size_t bytes;
  int32_t peer;
  uint64_t tag;
};
/* A send and a receive match by their ranks and tag; messages between two ranks under one tag are
 * received in the order in which they were sent. A send returns when its buffer may be used again,
 * which may be before its receive begins, or only when it ends. So two ranks that send to each
 * other use espalier_exchange, and a receiver makes no call before its receive for which the sender
 * is needed, as a barrier.
 * Messages that a rank receives in another order than they were sent are kept there, up to 64 MiB
 * together; beyond that the receive ends with -ENOMEM. */
ESPALIER_COLLECTIVE_API int espalier_send(espalier_comm* comm, const void* data, size_t bytes,
                                          int peer, uint64_t tag);
ESPALIER_COLLECTIVE_API int espalier_receive(espalier_comm* comm, void* data, size_t bytes,
                                             int peer, uint64_t tag);
/* Any number of sends and receives at once, in any order; a rank may send to itself. With each peer
 * a tag is used for one send and one receive at most. */
ESPALIER_COLLECTIVE_API int espalier_exchange(espalier_comm* comm,
                                              const struct espalier_message* sends,
                                              size_t send_count,
                                              const struct espalier_message* receives,
                                              size_t receive_count);
/* The same as a posted call (espalier_post); the arrays may be freed when the function returns. */
ESPALIER_COLLECTIVE_API int espalier_post_exchange(espalier_comm* comm,
                                                   const struct espalier_message* sends,
                                                   size_t send_count,
                                                   const struct espalier_message* receives,
                                                   size_t receive_count, uint64_t* request);

/* Replaces left[i] by left[i] o right[i], for `count` elements. Both arrays are aligned for a type
 * of the element's size, up to 16 bytes. It must not make calls of the communicator. */
typedef void (*espalier_reduction)(void* left, const void* right, size_t count, void* context);
/* Reductions by a function, over elements of element_bytes bytes (1 to 1 MiB). They combine the
 * ranks' elements in the order of the ranks, ((x0 o x1) o x2) o ..., on every rank and in every run
 * alike. So the function need be neither commutative nor associative; it must be the same on all
 * ranks and depend on its arguments alone. They need scratch memory of the input's size.
 * A function of C++ that throws ends the group on all ranks (-EIO). */
ESPALIER_COLLECTIVE_API int espalier_allreduce_by(espalier_comm* comm, const void* input,
                                                  void* output, size_t count, size_t element_bytes,
                                                  espalier_reduction function, void* context);
ESPALIER_COLLECTIVE_API int espalier_reduce_by(espalier_comm* comm, const void* input, void* output,
                                               size_t count, size_t element_bytes,
                                               espalier_reduction function, void* context,
                                               int root);
/* count: elements of one rank's part. */
ESPALIER_COLLECTIVE_API int espalier_reduce_scatter_by(espalier_comm* comm, const void* input,
                                                       void* output, size_t count,
                                                       size_t element_bytes,
                                                       espalier_reduction function, void* context);

/* Reduces all inputs of all ranks together, `count` elements each, and stores the result in all
 * outputs. Ranks may have different numbers of inputs and outputs, at least one of each. An output
 * may be one of the inputs. ESPALIER_AVG takes one input only (-EINVAL). */
ESPALIER_COLLECTIVE_API int espalier_allreduce_many(espalier_comm* comm, const void* const* inputs,
                                                    size_t input_count, void* const* outputs,
                                                    size_t output_count, size_t count, int type,
                                                    int op);
/* Reduces each buffer by itself, in one call: outputs[i] is the result of all ranks' inputs[i], of
 * counts[i] elements. It needs scratch memory of twice the sum of all inputs. */
ESPALIER_COLLECTIVE_API int espalier_allreduce_together(espalier_comm* comm,
                                                        const void* const* inputs,
                                                        void* const* outputs, const size_t* counts,
                                                        size_t buffers, int type, int op);

#ifdef __cplusplus
}
#endif

#endif
