/* Connects a program to its agent, and copies its flows to another one; a part of the library in
 * espalier_agent.c. Reentrant; no state. */
#ifndef ESPALIER_AGENT_CALL_H
#define ESPALIER_AGENT_CALL_H

#include <stddef.h>

#include "agent/local/local_protocol.h"

/* Connects and sends hello. Returns the socket, or a negative errno: -ETIMEDOUT if an agent that
 * does not accept connections lets it wait so long. `path` must fit into a sockaddr_un. */
int espalier_call_agent(const char* path, int flags, int timeout_ms);

/* Receives the agent's welcome. Returns the memory file if the agent accepts the program; else a
 * negative errno: -EPROTO if the welcome or the memory file is not as this library expects it. */
int espalier_receive_welcome(int fd, int timeout_ms, struct espalier_local_welcome* welcome);

/* Returns how many bytes of a memory file both sides know: that of an older agent ends before the
 * paths. 0: the file is too short, or not sealed against becoming shorter, so that access to it
 * could end the program by SIGBUS. */
size_t espalier_known_bytes(int memory);

/* Identifies the file behind a descriptor while the file is open; zeros if there is none. */
struct espalier_open_file {
  uint64_t device;
  uint64_t number;
};
struct espalier_open_file espalier_file_behind(int fd);
int espalier_is_behind(int fd, const struct espalier_open_file* file);

/* Copies the slot of the flow with this serial to the memory of another agent, without its owner,
 * so that the flow keeps its progress, its path set and its version. */
void espalier_copy_slot(const struct espalier_local_slot* old, uint32_t serial,
                        struct espalier_local_slot* slot);

#endif
