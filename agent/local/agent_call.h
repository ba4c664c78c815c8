/* How a program calls its agent and is welcomed: a part of the library in espalier_agent.c.
 * Reentrant; no state. */
#ifndef ESPALIER_AGENT_CALL_H
#define ESPALIER_AGENT_CALL_H

#include <stddef.h>

#include "agent/local/local_protocol.h"

/* A socket on which hello was said, or a negative errno. `path` fits into a sockaddr_un. */
int espalier_call_agent(const char* path, int flags);

/* The agent's welcome and, where it is one, the memory file; else a negative errno. */
int espalier_receive_welcome(int fd, int timeout_ms, struct espalier_local_welcome* welcome);

/* The bytes of a memory file that both sides know: an older agent's ends before the paths. */
size_t espalier_known_bytes(int memory);

#endif
