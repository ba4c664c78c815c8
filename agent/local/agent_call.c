#define _GNU_SOURCE
#include "agent/local/agent_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

struct espalier_open_file espalier_file_behind(int fd) {
  struct espalier_open_file file = {0, 0};
  struct stat status;
  if (fd >= 0 && fstat(fd, &status) == 0) {
    file.device = (uint64_t)status.st_dev;
    file.number = (uint64_t)status.st_ino;
  }
  return file;
}

int espalier_is_behind(int fd, const struct espalier_open_file* file) {
  const struct espalier_open_file now = espalier_file_behind(fd);
  return fd >= 0 && now.device == file->device && now.number == file->number;
}

int espalier_call_agent(const char* path, int flags, int timeout_ms) {
  const struct espalier_local_hello hello = {ESPALIER_LOCAL_VERSION};
  const struct timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  struct sockaddr_un address;
  int fd;
  int error;
  memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  if (path[0] == '\0') return -ENAMETOOLONG;
  strcpy(address.sun_path, path);
  fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
  if (fd < 0) return -errno;
  /* The limit of a blocking connect, too; 0 would be none. */
  if (timeout_ms > 0) (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  if (connect(fd, (const struct sockaddr*)&address, sizeof(address)) != 0) {
    error = errno == EAGAIN && timeout_ms > 0 ? ETIMEDOUT : errno;
    close(fd);
    return -error;
  }
  if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != (ssize_t)sizeof(hello)) {
    close(fd);
    return -EPIPE;
  }
  return fd;
}

int espalier_receive_welcome(int fd, int timeout_ms, struct espalier_local_welcome* welcome) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part = {welcome, sizeof(*welcome)};
  struct msghdr message;
  struct cmsghdr* rights;
  struct pollfd readable = {fd, POLLIN, 0};
  const struct espalier_open_file file = espalier_file_behind(fd);
  ssize_t size;
  int memory = -1;

  if (poll(&readable, 1, timeout_ms) <= 0) return -ETIMEDOUT;
  if (!espalier_is_behind(fd, &file)) return -EBADF; /* the program has closed it meanwhile */
  memset(&message, 0, sizeof(message));
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  size = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (size < 0) return -errno;
  if (size == 0) return -ECONNRESET;
  rights = CMSG_FIRSTHDR(&message);
  if (rights != NULL && rights->cmsg_type == SCM_RIGHTS) {
    memcpy(&memory, CMSG_DATA(rights), sizeof(memory));
  }
  if ((size_t)size >= 2 * sizeof(uint32_t) && welcome->status != 0) {
    if (memory >= 0) close(memory);
    return -(int)welcome->status;
  }
  if ((size_t)size != sizeof(*welcome) || welcome->version != ESPALIER_LOCAL_VERSION ||
      welcome->slot_count != ESPALIER_LOCAL_SLOTS || memory < 0 ||
      espalier_known_bytes(memory) == 0) {
    if (memory >= 0) close(memory);
    return -EPROTO;
  }
  return memory;
}

/* Whoever answers on the socket could let a program die by SIGBUS: with a file that is shorter than
 * what the program reads, or that is shortened later. */
size_t espalier_known_bytes(int memory) {
  struct stat file;
  const size_t all = sizeof(struct espalier_local_memory);
  const size_t least = offsetof(struct espalier_local_memory, paths);
  const int seals = fcntl(memory, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return 0;
  if (fstat(memory, &file) != 0 || (size_t)file.st_size < least) return 0;
  return (size_t)file.st_size < all ? least : all;
}

void espalier_copy_slot(const struct espalier_local_slot* old, uint32_t serial,
                        struct espalier_local_slot* slot) {
  union espalier_local_paths paths;
  uint64_t version;
  slot->flow = old->flow;
  slot->source_port = __atomic_load_n(&old->source_port, __ATOMIC_RELAXED);
  slot->flow.source_port = (uint16_t)slot->source_port;
  slot->remaining_bytes = __atomic_load_n(&old->remaining_bytes, __ATOMIC_RELAXED);
  slot->outstanding_bytes = __atomic_load_n(&old->outstanding_bytes, __ATOMIC_RELAXED);
  slot->sent_bytes = __atomic_load_n(&old->sent_bytes, __ATOMIC_RELAXED);
  slot->retries = __atomic_load_n(&old->retries, __ATOMIC_RELAXED);
  slot->rtt_us = __atomic_load_n(&old->rtt_us, __ATOMIC_RELAXED);
  slot->timeout_us = __atomic_load_n(&old->timeout_us, __ATOMIC_RELAXED);
  slot->repetitions = __atomic_load_n(&old->repetitions, __ATOMIC_RELAXED);
  slot->edges = __atomic_load_n(&old->edges, __ATOMIC_RELAXED);
  slot->between_edges_us = __atomic_load_n(&old->between_edges_us, __ATOMIC_RELAXED);
  slot->last_edge_ns = __atomic_load_n(&old->last_edge_ns, __ATOMIC_RELAXED);
  if (espalier_local_read_paths(old, &paths, &version) && paths.set.serial == serial)
    slot->paths = paths;
  slot->first_sequence = (uint64_t)0 - 2 * version; /* the flow keeps its version */
}
