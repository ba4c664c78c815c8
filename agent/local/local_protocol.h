/* The private protocol between the agent and libespalier-agent, versioned by
 * ESPALIER_LOCAL_VERSION. C and C++.
 *
 * The client says hello on a SEQPACKET unix socket. The agent answers with a welcome and a memory
 * file (SCM_RIGHTS, sealed against resizing) that holds one header and ESPALIER_LOCAL_SLOTS slots.
 * After that the socket carries only wake-ups of four bytes, which ask the other side to look at
 * the memory. A wake-up that finds the queue full may be dropped, as an earlier one is still
 * unread.
 *
 * A slot belongs to the flow whose serial (1, 2, ... in a connection) is in `owner`. To open a
 * flow, the client writes `flow` first and `owner` last (release); to end it, it writes 0 to
 * `owner`. The agent never trusts the client's part of a slot, and never reads back its own part.
 * Either side may access a slot that already belongs to another flow. Path sets therefore name the
 * serial of their flow.
 *
 * After a restart of its agent, a client copies its flows to the new memory, each with the path set
 * that is still in force, before it wakes the agent. So a path set with the slot's serial that the
 * new agent has not written is the client's copy of what the earlier agent wrote. */
#ifndef ESPALIER_LOCAL_PROTOCOL_H
#define ESPALIER_LOCAL_PROTOCOL_H

#include <sched.h>
#include <stdint.h>

#include "agent/local/espalier_agent.h"

#define ESPALIER_LOCAL_VERSION 1u
#define ESPALIER_LOCAL_SLOTS 1024u
#define ESPALIER_LOCAL_WAKE 0x454b4157u /* "WAKE" */

struct espalier_local_hello {
  uint32_t version;
};

struct espalier_local_welcome {
  uint32_t version;
  uint32_t status; /* 0, or an errno value without a memory file: EPROTO, EUSERS, ENOMEM */
  uint32_t client; /* flow ids of this connection: client << 32 | serial */
  uint32_t slot_count;
};

struct espalier_local_header {
  uint32_t version;
  uint32_t slots_used; /* written by the client; later slots were never used */
  uint8_t reserved[56];
};

/* A path set, also as words, so that both sides can copy it with atomic accesses. */
#define ESPALIER_LOCAL_PATH_WORDS 11
union espalier_local_paths {
  struct {
    uint32_t serial; /* of its flow */
    uint32_t path_count;
    uint32_t reason;
    uint32_t reserved;
    uint64_t max_rate_bps;
    uint16_t source_port[ESPALIER_MAX_PATHS];
    uint16_t weight[ESPALIER_MAX_PATHS];
  } set;
  uint64_t words[ESPALIER_LOCAL_PATH_WORDS];
};

struct espalier_local_slot {
  /* Written by the client, often. */
  uint32_t owner;
  uint32_t source_port;
  uint64_t remaining_bytes;
  uint64_t outstanding_bytes;
  uint64_t sent_bytes;
  uint32_t retries;
  uint32_t rtt_us;
  /* Edges of the flow, see espalier_flow_edges; zeros from an older client. Not consistent with
   * each other while the client writes them. */
  uint32_t edges;
  uint32_t between_edges_us;
  uint64_t last_edge_ns;
  /* Only for the client: `sequence` when this flow was at version 0. */
  uint64_t first_sequence;
  /* Written by the client, when the flow opens. */
  struct espalier_flow_desc flow;
  /* Of the transport, see espalier_flow_timeout; zeros from an older client. */
  uint32_t timeout_us;
  uint32_t repetitions;
  /* Written by the agent. Sequence lock: odd while the words change; its half is the number of
   * changes. */
  uint64_t sequence;
  union espalier_local_paths paths;
  uint8_t paths_padding[32];
};

/* One connection of a split flow; written by the client. Port 0: there is none. */
struct espalier_local_path {
  uint64_t outstanding_bytes;
  uint64_t sent_bytes;
  uint32_t retries;
  uint32_t source_port;
};

struct espalier_local_memory {
  struct espalier_local_header header;
  struct espalier_local_slot slots[ESPALIER_LOCAL_SLOTS];
  /* By slot. Added after the first release: the file of an older agent ends before it, and an older
   * client does not map it. */
  struct espalier_local_path paths[ESPALIER_LOCAL_SLOTS][ESPALIER_MAX_PATHS];
};

#ifdef __cplusplus
#define ESPALIER_LOCAL_ASSERT(condition) static_assert(condition, #condition)
#else
#define ESPALIER_LOCAL_ASSERT(condition) _Static_assert(condition, #condition)
#endif
ESPALIER_LOCAL_ASSERT(sizeof(struct espalier_flow_desc) == 120);
ESPALIER_LOCAL_ASSERT(sizeof(union espalier_local_paths) == 8 * ESPALIER_LOCAL_PATH_WORDS);
ESPALIER_LOCAL_ASSERT(sizeof(struct espalier_local_header) == 64);
ESPALIER_LOCAL_ASSERT(sizeof(struct espalier_local_slot) == 320);
ESPALIER_LOCAL_ASSERT(sizeof(struct espalier_local_path) == 24);

/* Writes the words under the sequence lock. One writer at a time. Release stores replace a fence: a
 * reader that sees a new word also sees the odd sequence before it. */
static inline void espalier_local_write_paths(struct espalier_local_slot* slot, uint64_t sequence,
                                              const union espalier_local_paths* paths) {
  int i;
  __atomic_store_n(&slot->sequence, sequence | 1u, __ATOMIC_RELAXED);
  for (i = 0; i < ESPALIER_LOCAL_PATH_WORDS; ++i) {
    __atomic_store_n(&slot->paths.words[i], paths->words[i], __ATOMIC_RELEASE);
  }
  __atomic_store_n(&slot->sequence, (sequence | 1u) + 1u, __ATOMIC_RELEASE);
}

/* Returns the number of changes of the path set of the slot's flow. The first value is read twice,
 * which detects that another agent's memory has replaced this one in between. */
static inline uint64_t espalier_local_version(const struct espalier_local_slot* slot) {
  uint64_t first;
  uint64_t sequence;
  do {
    first = __atomic_load_n(&slot->first_sequence, __ATOMIC_ACQUIRE);
    sequence = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
  } while (first != __atomic_load_n(&slot->first_sequence, __ATOMIC_RELAXED));
  return (sequence - first) / 2;
}

/* Reads the path set of a slot and its version. Returns 0 if it is being written in all of 256
 * attempts: an agent that dies while it writes leaves an odd sequence behind. One that is only
 * preempted gets the processor from the 64th attempt on. */
static inline int espalier_local_read_paths(const struct espalier_local_slot* slot,
                                            union espalier_local_paths* paths, uint64_t* version) {
  uint64_t before;
  int attempt;
  int i;
  for (attempt = 0; attempt < 256; ++attempt) {
    if (attempt >= 64) sched_yield();
    *version = espalier_local_version(slot);
    before = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
    for (i = 0; i < ESPALIER_LOCAL_PATH_WORDS; ++i) {
      paths->words[i] = __atomic_load_n(&slot->paths.words[i], __ATOMIC_ACQUIRE);
    }
    if (before % 2 == 0 && __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED) == before &&
        espalier_local_version(slot) == *version) {
      return 1;
    }
  }
  return 0;
}

#endif
