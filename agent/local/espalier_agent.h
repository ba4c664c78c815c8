/* libespalier-agent: the library with which a program on a GPU host announces its flows to the
 * agent and reads their paths. C ABI, no dependencies. Flows, their progress and their path sets
 * are in memory shared with the agent, so reading and writing them is wait-free and makes no system
 * call. A unix socket passes that memory and carries wake-ups when a flow opens or ends and when a
 * path set has changed.
 *
 * A program need not wait for the controller. A flow starts on its own port. When it has a path
 * set, the program uses the ports of that set from the flow's next message on, or at once if the
 * reason is ESPALIER_REASON_PATH_DEAD. What has begun on the flow's own port stays where ECMP has
 * put it. So a program that opens a flow right before its first large messages does well to wait
 * for espalier_agent_fd until espalier_flow_version is no longer 0, but for 20 ms at most.
 *
 * A restart of the agent moves no flows: path sets stay in force for $ESPALIER_AGENT_GRACE_SECONDS
 * (0 to 3600; default 30, also for other values), without their rate limits. Meanwhile
 * espalier_agent_dispatch looks for an agent on the same socket, and gives it the flows with their
 * path sets in force. If no agent returns, espalier_agent_dispatch fails and path sets become empty
 * (plain ECMP).
 *
 * Thread safety: calls on one flow from one thread at a time; different flows and
 * espalier_agent_dispatch are independent. Call espalier_agent_close after all others.
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

enum espalier_reason { /* the values of the PathSet message */
                       ESPALIER_REASON_ASSIGNED = 0,
                       ESPALIER_REASON_PREDICTED = 1,
                       ESPALIER_REASON_PATH_DEAD = 2,
                       ESPALIER_REASON_RECOMPUTED = 3,
                       ESPALIER_REASON_REMAPPED = 4
};

enum espalier_flow_flag {
  /* The program, the kernel or the device sends no faster than max_rate_bps of the path set. Flows
   * without this flag usually get no rate. */
  ESPALIER_FLOW_KEEPS_RATE = 1,
  /* The flow's path is not to be chosen, as its port is in a rank plan: only when it is busy is of
   * interest. It gets no path set. */
  ESPALIER_FLOW_PATH_FIXED = 2,
  /* The program sends over the paths of its path set in proportion to their weights, as far as they
   * keep up. Only such flows get weights other than 1. */
  ESPALIER_FLOW_KEEPS_WEIGHTS = 4,
  /* The queue pair is a flow of its own, although others of this program connect the same NICs.
   * For programs that announce the queue pairs of others. */
  ESPALIER_FLOW_ALONE = 8
};

struct espalier_flow_desc {
  char job[ESPALIER_JOB_BYTES]; /* NUL-terminated; "": $ESPALIER_JOB, else $SLURM_JOB_ID, both as
                                   of connect, else the job that the agent derives */
  uint8_t source[16];           /* NIC addresses, network order; IPv4 as ::ffff:a.b.c.d */
  uint8_t destination[16];
  uint8_t protocol;  /* 17: UDP or RoCEv2, 6: TCP */
  uint8_t max_paths; /* 1..ESPALIER_MAX_PATHS */
  uint8_t movable;   /* 1: its port can change while it is open; 0: it cannot */
  uint8_t flags;     /* enum espalier_flow_flag; other bits are ignored */
  uint16_t destination_port;
  uint16_t source_port; /* in use; 0: unknown */
  uint32_t local_qpn;
  uint32_t remote_qpn;
  uint64_t remaining_bytes; /* known to the program and not sent yet */
};

struct espalier_path_set {
  uint64_t version;      /* grows with each change; 0: never assigned */
  uint32_t path_count;   /* 0: plain ECMP, use the flow's own port */
  uint32_t reason;       /* enum espalier_reason */
  uint64_t max_rate_bps; /* 0: no limit */
  uint16_t source_port[ESPALIER_MAX_PATHS];
  uint16_t weight[ESPALIER_MAX_PATHS];
};

/* Connects to the agent. socket_path NULL: $ESPALIER_AGENT_SOCKET, else the default. Waits for the
 * agent's answer for at most 5 s. -ECONNREFUSED, -ENOENT: no agent; -EPROTO: an agent of another
 * version; -EUSERS: the agent has reached its limit of clients, in total or of this user;
 * -ETIMEDOUT; -ENAMETOOLONG. */
ESPALIER_API int espalier_agent_connect(const char* socket_path, espalier_agent** agent);
ESPALIER_API void espalier_agent_close(
    espalier_agent* agent); /* ends its flows and invalidates their handles; NULL is ignored */
/* Returns a descriptor that is readable when a path set has changed, when the agent has gone, and
 * repeatedly until the agent is back; espalier_agent_dispatch clears it. Only wait for it (it is an
 * epoll descriptor). */
ESPALIER_API int espalier_agent_fd(const espalier_agent* agent);
/* Handles what makes the descriptor readable; returns at once. 0: the agent is there, or has been
 * away for less than the grace time (flows can be opened, and are announced when it is back).
 * -EPIPE: the agent did not return in time; flows use plain ECMP, and a new connection is needed.
 */
ESPALIER_API int espalier_agent_dispatch(espalier_agent* agent);

/* Opens a flow; returns at once. -EINVAL: a field is out of range; -ENOSPC: the connection has
 * 1,024 flows; -ENOMEM; -EPIPE: the agent has gone. */
ESPALIER_API int espalier_flow_open(espalier_agent* agent, const struct espalier_flow_desc* desc,
                                    espalier_flow** flow);
/* Reports progress. remaining: known to the program and not sent yet; outstanding: handed to the
 * NIC or the kernel and not acknowledged yet; sent: acknowledged since the flow was opened;
 * source_port: in use. While there is something to send, report every 20 ms or so: the agent checks
 * the path of a flow that makes no progress. */
ESPALIER_API void espalier_flow_progress(espalier_flow* flow, uint64_t remaining_bytes,
                                         uint64_t outstanding_bytes, uint64_t sent_bytes,
                                         uint16_t source_port);
/* Reports what the transport knows about the path: retransmissions since the flow was opened, and
 * the smoothed round-trip time (0: unknown). The agent leaves a path whose retries grow without
 * progress. Optional. */
ESPALIER_API void espalier_flow_transport(espalier_flow* flow, uint32_t retries, uint32_t rtt_us);
/* Reports how the transport waits: the time until it repeats what is not acknowledged, in
 * microseconds (0: unknown; UINT32_MAX: so long or longer), and how often it repeats it. The
 * operator is warned of flows that wait much longer than it takes to move them off a dead path.
 * Optional. No effect with an agent that is older than this call. */
ESPALIER_API void espalier_flow_timeout(espalier_flow* flow, uint32_t timeout_us,
                                        uint32_t repetitions);
/* Tells the number of the flow's own queue pair, if the program learns it after it has opened the
 * flow. To the agent one flow ends and another one opens, with the same path set and progress, so
 * that nothing moves; espalier_flow_id changes. -EINVAL: the number is out of range; -ENOSPC: the
 * connection has had 2^32 flows; -EPIPE: the agent has gone. */
ESPALIER_API int espalier_flow_set_local_qpn(espalier_flow* flow, uint32_t local_qpn);
/* Reports the progress of the connection or queue pair `path` (0..ESPALIER_MAX_PATHS-1) of a split
 * flow: its port (0: it is closed), and the bytes in flight, acknowledged bytes and retransmissions
 * from that port. Optional: with it the agent detects that one of several paths is dead and leaves
 * only that one. No effect with an agent that is older than this call. */
ESPALIER_API void espalier_flow_path_progress(espalier_flow* flow, uint32_t path,
                                              uint16_t source_port, uint64_t outstanding_bytes,
                                              uint64_t sent_bytes, uint32_t retries);
/* Reports when the flow was busy. edges: its changes between busy and idle since it was opened
 * (odd: busy; even: idle; 2: idle since then); last_edge_ns: time of the last change
 * (CLOCK_MONOTONIC); between_ns: from the change before it to the last one. Optional: without it,
 * and with edges 0, the agent looks at the reported bytes every few milliseconds. No effect with an
 * agent that is older than this call. */
ESPALIER_API void espalier_flow_edges(espalier_flow* flow, uint32_t edges, uint64_t last_edge_ns,
                                      uint64_t between_ns);
/* Returns the version of the flow's path set: one load that shows whether it has changed. */
ESPALIER_API uint64_t espalier_flow_version(const espalier_flow* flow);
ESPALIER_API void espalier_flow_paths(const espalier_flow* flow, struct espalier_path_set* paths);
/* Returns the agent's number of the flow, as in its reports. It changes with the agent. */
ESPALIER_API uint64_t espalier_flow_id(const espalier_flow* flow);
ESPALIER_API void espalier_flow_close(espalier_flow* flow); /* NULL is ignored */

#ifdef __cplusplus
}
#endif

#endif
