/* Connects a program to its agent; a part of the library in espalier_agent.c. Reentrant; no
 * state. */
#ifndef ESPALIER_AGENT_CALL_H
#define ESPALIER_AGENT_CALL_H

#include <stddef.h>

#include "agent/local/local_protocol.h"

/* Connects and sends hello. Returns the socket, or a negative errno: -ETIMEDOUT if an agent that
 * does not accept connections lets it wait so long. `path` must fit into a sockaddr_un. */
int espalier_call_agent(const char* path, int flags, int timeout_ms);

/* Receives the agent's welcome. Returns the memory file if the agent accepts the program; else a
 * negative errno. */
int espalier_receive_welcome(int fd, int timeout_ms, struct espalier_local_welcome* welcome);

/* Returns how many bytes of a memory file both sides know: that of an older agent ends before the
 * paths. */
size_t espalier_known_bytes(int memory);

#endif
