#define _GNU_SOURCE
#include "agent/local/agent_call.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

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
  ssize_t size;
  int memory = -1;

  if (poll(&readable, 1, timeout_ms) <= 0) return -ETIMEDOUT;
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
      welcome->slot_count != ESPALIER_LOCAL_SLOTS || memory < 0) {
    if (memory >= 0) close(memory);
    return -EPROTO;
  }
  return memory;
}

size_t espalier_known_bytes(int memory) {
  struct stat file;
  const size_t all = sizeof(struct espalier_local_memory);
  if (fstat(memory, &file) != 0 || (size_t)file.st_size < all) {
    return offsetof(struct espalier_local_memory, paths);
  }
  return all;
}
