/* libespalier-agent: how a program on a GPU host tells the agent of its flows and learns their
 * paths. C ABI, no dependencies. Flows, their progress and their current path sets are in memory
 * shared with the agent: reading and writing them is wait-free and makes no system call. A unix
 * socket hands that memory over and carries wake-ups, when a flow opens or ends and when a path
 * set has changed.
 *
 * A program never waits for the controller: a flow starts on its own port and takes the ports of
 * its path set when there is one, from its next message on (at once where the reason is
 * ESPALIER_REASON_PATH_DEAD).
 *
 * An agent that restarts changes nothing: when it goes away, path sets stay in force for
 * $ESPALIER_AGENT_GRACE_SECONDS (30 where that is unset or not 0 to 3600). Meanwhile
 * espalier_agent_dispatch looks for an agent on the same socket, and gives it the flows and what
 * is in force. Where none comes back (espalier_agent_dispatch says so), path sets become empty:
 * plain ECMP.
 *
 * Thread safety: calls on one flow from one thread at a time; different flows are independent, and
 * so is espalier_agent_dispatch. espalier_agent_close comes last.
 * Errors are negative errno values. */
#ifndef ESPALIER_AGENT_H
#define ESPALIER_AGENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ESPALIER_API __attribute__((visibility("default")))
#else
#define ESPALIER_API
#endif

#define ESPALIER_AGENT_DEFAULT_SOCKET "/run/espalier/agent.sock"
#define ESPALIER_MAX_PATHS 16
#define ESPALIER_JOB_BYTES 64

typedef struct espalier_agent espalier_agent;
typedef struct espalier_flow espalier_flow;

enum espalier_reason { /* as in the PathSet message */
                       ESPALIER_REASON_ASSIGNED = 0,
                       ESPALIER_REASON_PREDICTED = 1,
                       ESPALIER_REASON_PATH_DEAD = 2,
                       ESPALIER_REASON_RECOMPUTED = 3,
                       ESPALIER_REASON_REMAPPED = 4
};

struct espalier_flow_desc {
  char job[ESPALIER_JOB_BYTES]; /* NUL-terminated; "" = $ESPALIER_JOB, else $SLURM_JOB_ID, as they
                                   were at connect; else derived by the agent */
  uint8_t source[16];           /* NIC addresses, network order; IPv4 as ::ffff:a.b.c.d */
  uint8_t destination[16];
  uint8_t protocol;  /* 17 UDP or RoCEv2, 6 TCP */
  uint8_t max_paths; /* 1..ESPALIER_MAX_PATHS */
  uint8_t movable;   /* its port can change while it lives */
  uint8_t reserved;
  uint16_t destination_port;
  uint16_t source_port; /* in use now; 0 unknown */
  uint32_t local_qpn;
  uint32_t remote_qpn;
  uint64_t remaining_bytes; /* announced so far, not yet sent */
};

struct espalier_path_set {
  uint64_t version;      /* grows with each change; 0: never assigned */
  uint32_t path_count;   /* 0: plain ECMP, use your own port */
  uint32_t reason;       /* enum espalier_reason */
  uint64_t max_rate_bps; /* 0: no limit */
  uint16_t source_port[ESPALIER_MAX_PATHS];
  uint16_t weight[ESPALIER_MAX_PATHS];
};

/* socket_path NULL: $ESPALIER_AGENT_SOCKET, else the default. Waits for the agent's answer, 5 s at
 * most. -ECONNREFUSED, -ENOENT: no agent; -EPROTO: an agent of another version; -EUSERS: it has as
 * many clients as it takes; -ETIMEDOUT; -ENAMETOOLONG. */
ESPALIER_API int espalier_agent_connect(const char* socket_path, espalier_agent** agent);
ESPALIER_API void espalier_agent_close(
    espalier_agent* agent); /* ends its flows (their handles are then invalid); NULL is ignored */
/* Readable when a path set has changed, when the agent has gone, and now and then until it is back;
 * espalier_agent_dispatch clears it. It may only be waited for (it is an epoll descriptor). */
ESPALIER_API int espalier_agent_fd(const espalier_agent* agent);
/* Returns at once. 0, also while the agent is away for less than the grace (flows may be opened,
 * and are announced when it is back); -EPIPE when it has gone for good (flows go on with plain
 * ECMP; connect again for more). */
ESPALIER_API int espalier_agent_dispatch(espalier_agent* agent);

/* -EINVAL: a field out of range; -ENOSPC: more than 1,024 flows of one connection; -EPIPE: the
 * agent has gone. Returns at once. */
ESPALIER_API int espalier_flow_open(espalier_agent* agent, const struct espalier_flow_desc* desc,
                                    espalier_flow** flow);
/* remaining: still to be sent of what the program knows of; outstanding: handed to the NIC or the
 * kernel, not yet acknowledged; sent: acknowledged since the flow was opened; source_port: in use.
 */
ESPALIER_API void espalier_flow_progress(espalier_flow* flow, uint64_t remaining_bytes,
                                         uint64_t outstanding_bytes, uint64_t sent_bytes,
                                         uint16_t source_port);
/* What the transport says of the path, where it does: retransmissions since the flow was opened,
 * smoothed round-trip time (0 unknown). The agent leaves a path whose retries grow without
 * progress. */
ESPALIER_API void espalier_flow_transport(espalier_flow* flow, uint32_t retries, uint32_t rtt_us);
/* How the connection or queue pair `path` (0..ESPALIER_MAX_PATHS-1) of a split flow fares: its port
 * (0: there is none any more), and of what goes out from that port what is not acknowledged, what
 * was, and retransmissions. Optional: with it the agent sees when one path of several is dead, and
 * only that one is left. Nothing with an agent that is older than this call. */
ESPALIER_API void espalier_flow_path_progress(espalier_flow* flow, uint32_t path,
                                              uint16_t source_port, uint64_t outstanding_bytes,
                                              uint64_t sent_bytes, uint32_t retries);
/* One load: has anything changed? */
ESPALIER_API uint64_t espalier_flow_version(const espalier_flow* flow);
ESPALIER_API void espalier_flow_paths(const espalier_flow* flow, struct espalier_path_set* paths);
/* The agent's number of the flow, as in its reports; another one with another agent. */
ESPALIER_API uint64_t espalier_flow_id(const espalier_flow* flow);
ESPALIER_API void espalier_flow_close(espalier_flow* flow); /* NULL is ignored */

#ifdef __cplusplus
}
#endif

#endif
