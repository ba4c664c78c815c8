/* What the agent and libespalier-agent share: private to the two, and bound together by
 * ESPALIER_LOCAL_VERSION. C and C++.
 *
 * The client says hello on a SEQPACKET unix socket; the agent answers with a welcome and a memory
 * file (SCM_RIGHTS, sealed against resizing) that holds one header and ESPALIER_LOCAL_SLOTS slots.
 * From then on the socket carries only wake-ups of four bytes: "look at the memory". A wake-up that
 * finds the queue full may be dropped, because an earlier one is still unread.
 *
 * A slot belongs to the flow whose serial (1, 2, ... a connection) stands in `owner`; the client
 * writes `flow` first and `owner` last (release), and 0 to end it. The agent reads a slot's client
 * part as bytes from a stranger and never reads back its own part. Each side may meet the other in
 * a slot that has changed hands in the meantime: path sets therefore name the serial that they are
 * for.
 *
 * A client whose agent has gone and come back puts its flows into the new memory as they are, each
 * with the path set that is still in force, before it wakes the agent: a set that names its slot's
 * serial before the agent has written one is the client's word of what another agent wrote. */
#ifndef ESPALIER_LOCAL_PROTOCOL_H
#define ESPALIER_LOCAL_PROTOCOL_H

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
  uint32_t status; /* 0, or an errno value: EPROTO, EUSERS; no memory file then */
  uint32_t client; /* flow ids of this connection: client << 32 | serial */
  uint32_t slot_count;
};

struct espalier_local_header {
  uint32_t version;
  uint32_t slots_used; /* by the client: no slot from here on was ever used */
  uint8_t reserved[56];
};

/* The path set, as words so that both sides can copy it with atomic accesses. */
#define ESPALIER_LOCAL_PATH_WORDS 11
union espalier_local_paths {
  struct {
    uint32_t serial; /* of the flow that it is for */
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
  uint8_t progress_padding[16];
  /* The client's own, of no use to the agent: `sequence` when this flow was at version 0. */
  uint64_t first_sequence;
  /* Written by the client, when the flow opens. */
  struct espalier_flow_desc flow;
  uint8_t flow_padding[8];
  /* Written by the agent. Sequence lock: odd while the words change; half of it is the number of
   * changes so far. */
  uint64_t sequence;
  union espalier_local_paths paths;
  uint8_t paths_padding[32];
};

/* One connection of a split flow; written by the client, 0 as port where there is none. */
struct espalier_local_path {
  uint64_t outstanding_bytes;
  uint64_t sent_bytes;
  uint32_t retries;
  uint32_t source_port;
};

struct espalier_local_memory {
  struct espalier_local_header header;
  struct espalier_local_slot slots[ESPALIER_LOCAL_SLOTS];
  /* By slot. Came after the first release: the file of an older agent ends before it, and an older
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

/* Writes the words under the sequence lock. One writer at a time. Release stores in place of a
 * fence: whoever sees a new word also sees the odd sequence before it. */
static inline void espalier_local_write_paths(struct espalier_local_slot* slot, uint64_t sequence,
                                              const union espalier_local_paths* paths) {
  int i;
  __atomic_store_n(&slot->sequence, sequence | 1u, __ATOMIC_RELAXED);
  for (i = 0; i < ESPALIER_LOCAL_PATH_WORDS; ++i) {
    __atomic_store_n(&slot->paths.words[i], paths->words[i], __ATOMIC_RELEASE);
  }
  __atomic_store_n(&slot->sequence, (sequence | 1u) + 1u, __ATOMIC_RELEASE);
}

/* Changes so far of the path set of the flow that has this slot. Consistent while another agent's
 * memory takes the place of this: what is read first and last is then not the same. */
static inline uint64_t espalier_local_version(const struct espalier_local_slot* slot) {
  uint64_t first;
  uint64_t sequence;
  do {
    first = __atomic_load_n(&slot->first_sequence, __ATOMIC_ACQUIRE);
    sequence = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
  } while (first != __atomic_load_n(&slot->first_sequence, __ATOMIC_RELAXED));
  return (sequence - first) / 2;
}

/* The path set of a slot and its version; 0 where it is being written all the time.
 * Bounded: an agent that died while it wrote leaves an odd sequence behind for ever. */
static inline int espalier_local_read_paths(const struct espalier_local_slot* slot,
                                            union espalier_local_paths* paths, uint64_t* version) {
  uint64_t before;
  int attempt;
  int i;
  for (attempt = 0; attempt < 64; ++attempt) {
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
