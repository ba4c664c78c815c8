#define _GNU_SOURCE
#include "agent/local/espalier_agent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/local/local_protocol.h"

enum { kConnectTimeoutMs = 5000, kReadAttempts = 64 };

struct espalier_flow {
  espalier_agent* agent;
  struct espalier_local_slot* slot;
  uint32_t index;
  uint32_t serial;
  uint64_t first_sequence; /* of the slot when this flow took it; even */
};

struct espalier_agent {
  int socket;
  uint32_t client;
  struct espalier_local_memory* memory;
  size_t memory_bytes;   /* less than all with an older agent */
  pthread_mutex_t mutex; /* guards what follows */
  int gone;
  uint32_t last_serial;
  uint32_t slots_used;
  uint32_t free_count;
  uint32_t free_slots[ESPALIER_LOCAL_SLOTS]; /* a stack of slots that were used before */
  espalier_flow* flows[ESPALIER_LOCAL_SLOTS];
};

static int open_socket(const char* path) {
  struct sockaddr_un address;
  int fd;
  int error;
  if (path == NULL) path = getenv("ESPALIER_AGENT_SOCKET");
  if (path == NULL || path[0] == '\0') path = ESPALIER_AGENT_DEFAULT_SOCKET;
  memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  if (strlen(path) >= sizeof(address.sun_path)) return -ENAMETOOLONG;
  strcpy(address.sun_path, path);
  fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  if (connect(fd, (const struct sockaddr*)&address, sizeof(address)) != 0) {
    error = errno;
    close(fd);
    return -error;
  }
  return fd;
}

/* The agent's welcome and, where it is one, the memory file; else a negative errno. */
static int receive_welcome(int fd, struct espalier_local_welcome* welcome) {
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

  if (poll(&readable, 1, kConnectTimeoutMs) <= 0) return -ETIMEDOUT;
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

int espalier_agent_connect(const char* socket_path, espalier_agent** agent) {
  const struct espalier_local_hello hello = {ESPALIER_LOCAL_VERSION};
  struct espalier_local_welcome welcome;
  espalier_agent* made;
  struct stat file;
  size_t bytes = sizeof(struct espalier_local_memory);
  void* mapped;
  int memory;
  int fd = open_socket(socket_path);
  if (fd < 0) return fd;
  if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != (ssize_t)sizeof(hello)) {
    close(fd);
    return -EPIPE;
  }
  memory = receive_welcome(fd, &welcome);
  if (memory < 0) {
    close(fd);
    return memory;
  }
  if (fstat(memory, &file) != 0 || (size_t)file.st_size < bytes) {
    bytes = offsetof(struct espalier_local_memory, paths);
  }
  mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  close(memory);
  made = mapped == MAP_FAILED ? NULL : calloc(1, sizeof(*made));
  if (made == NULL) {
    if (mapped != MAP_FAILED) munmap(mapped, bytes);
    close(fd);
    return -ENOMEM;
  }
  made->socket = fd;
  made->client = welcome.client;
  made->memory = mapped;
  made->memory_bytes = bytes;
  pthread_mutex_init(&made->mutex, NULL);
  *agent = made;
  return 0;
}

void espalier_agent_close(espalier_agent* agent) {
  uint32_t i;
  if (agent == NULL) return;
  close(agent->socket); /* the agent ends our flows when it sees that */
  for (i = 0; i < ESPALIER_LOCAL_SLOTS; ++i) free(agent->flows[i]);
  munmap(agent->memory, agent->memory_bytes);
  pthread_mutex_destroy(&agent->mutex);
  free(agent);
}

int espalier_agent_fd(const espalier_agent* agent) { return agent->socket; }

/* There is no agent to write path sets any more, so we write the empty ones. */
static void clear_path_sets(espalier_agent* agent) {
  uint32_t i;
  for (i = 0; i < agent->slots_used; ++i) {
    struct espalier_local_slot* slot = &agent->memory->slots[i];
    union espalier_local_paths none;
    memset(&none, 0, sizeof(none));
    none.set.serial = __atomic_load_n(&slot->owner, __ATOMIC_RELAXED);
    espalier_local_write_paths(slot, __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED), &none);
  }
}

int espalier_agent_dispatch(espalier_agent* agent) {
  char wake[64];
  ssize_t size;
  int gone;
  pthread_mutex_lock(&agent->mutex);
  do {
    size = recv(agent->socket, wake, sizeof(wake), MSG_DONTWAIT);
  } while (size > 0 || (size < 0 && errno == EINTR));
  if (!agent->gone && (size == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))) {
    agent->gone = 1;
    clear_path_sets(agent);
  }
  gone = agent->gone;
  pthread_mutex_unlock(&agent->mutex);
  return gone ? -EPIPE : 0;
}

static int is_valid(const struct espalier_flow_desc* desc) {
  static const uint8_t none[16] = {0};
  const char* c;
  if (memchr(desc->job, '\0', sizeof(desc->job)) == NULL) return 0;
  for (c = desc->job; *c != '\0'; ++c) {
    if (*c < 0x20 || *c > 0x7e) return 0;
  }
  return memcmp(desc->source, none, 16) != 0 && memcmp(desc->destination, none, 16) != 0 &&
         (desc->protocol == 6 || desc->protocol == 17) && desc->max_paths >= 1 &&
         desc->max_paths <= ESPALIER_MAX_PATHS && desc->movable <= 1 &&
         desc->destination_port != 0 && desc->local_qpn < 1u << 24 && desc->remote_qpn < 1u << 24;
}

static void wake_agent(const espalier_agent* agent) {
  const uint32_t wake = ESPALIER_LOCAL_WAKE;
  /* EAGAIN: an earlier wake-up is still unread. EPIPE: dispatch will tell the program. */
  ssize_t ignored = send(agent->socket, &wake, sizeof(wake), MSG_DONTWAIT | MSG_NOSIGNAL);
  (void)ignored;
}

/* Gives the flow a slot and a serial; the caller holds the mutex. */
static int take_slot(espalier_agent* agent, espalier_flow* flow) {
  if (agent->gone) return -EPIPE;
  if (agent->last_serial == UINT32_MAX) return -ENOSPC;
  if (agent->free_count > 0) {
    flow->index = agent->free_slots[--agent->free_count];
  } else if (agent->slots_used < ESPALIER_LOCAL_SLOTS) {
    flow->index = agent->slots_used++;
    __atomic_store_n(&agent->memory->header.slots_used, agent->slots_used, __ATOMIC_RELEASE);
  } else {
    return -ENOSPC;
  }
  agent->flows[flow->index] = flow;
  flow->agent = agent;
  flow->serial = ++agent->last_serial;
  flow->slot = &agent->memory->slots[flow->index];
  flow->first_sequence = __atomic_load_n(&flow->slot->sequence, __ATOMIC_ACQUIRE) & ~(uint64_t)1;
  return 0;
}

static int has_path_progress(const espalier_agent* agent) {
  return agent->memory_bytes == sizeof(*agent->memory);
}

int espalier_flow_open(espalier_agent* agent, const struct espalier_flow_desc* desc,
                       espalier_flow** flow) {
  espalier_flow* made;
  uint32_t path;
  int status;
  if (!is_valid(desc)) return -EINVAL;
  made = calloc(1, sizeof(*made));
  if (made == NULL) return -ENOMEM;
  pthread_mutex_lock(&agent->mutex);
  status = take_slot(agent, made);
  if (status == 0) {
    made->slot->flow = *desc;
    espalier_flow_progress(made, desc->remaining_bytes, 0, 0, desc->source_port);
    espalier_flow_transport(made, 0, 0);
    for (path = 0; path < ESPALIER_MAX_PATHS; ++path) {
      espalier_flow_path_progress(made, path, 0, 0, 0, 0);
    }
    __atomic_store_n(&made->slot->owner, made->serial, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&agent->mutex);
  if (status != 0) {
    free(made);
    return status;
  }
  wake_agent(agent);
  *flow = made;
  return 0;
}

void espalier_flow_progress(espalier_flow* flow, uint64_t remaining_bytes,
                            uint64_t outstanding_bytes, uint64_t sent_bytes, uint16_t source_port) {
  struct espalier_local_slot* slot = flow->slot;
  __atomic_store_n(&slot->source_port, source_port, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->remaining_bytes, remaining_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->outstanding_bytes, outstanding_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&slot->sent_bytes, sent_bytes, __ATOMIC_RELAXED);
}

void espalier_flow_transport(espalier_flow* flow, uint32_t retries, uint32_t rtt_us) {
  __atomic_store_n(&flow->slot->retries, retries, __ATOMIC_RELAXED);
  __atomic_store_n(&flow->slot->rtt_us, rtt_us, __ATOMIC_RELAXED);
}

void espalier_flow_path_progress(espalier_flow* flow, uint32_t path, uint16_t source_port,
                                 uint64_t outstanding_bytes, uint64_t sent_bytes,
                                 uint32_t retries) {
  struct espalier_local_path* part;
  if (!has_path_progress(flow->agent) || path >= ESPALIER_MAX_PATHS) return;
  part = &flow->agent->memory->paths[flow->index][path];
  __atomic_store_n(&part->outstanding_bytes, outstanding_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&part->sent_bytes, sent_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&part->retries, retries, __ATOMIC_RELAXED);
  __atomic_store_n(&part->source_port, source_port, __ATOMIC_RELAXED);
}

uint64_t espalier_flow_version(const espalier_flow* flow) {
  const uint64_t sequence = __atomic_load_n(&flow->slot->sequence, __ATOMIC_ACQUIRE);
  return (sequence - flow->first_sequence) / 2;
}

void espalier_flow_paths(const espalier_flow* flow, struct espalier_path_set* paths) {
  struct espalier_local_slot* slot = flow->slot;
  union espalier_local_paths read;
  uint64_t before = 0;
  int consistent = 0;
  int attempt;
  int i;
  /* Bounded: an agent that died while it wrote leaves an odd sequence behind for ever. */
  for (attempt = 0; attempt < kReadAttempts && !consistent; ++attempt) {
    before = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
    for (i = 0; i < ESPALIER_LOCAL_PATH_WORDS; ++i) {
      read.words[i] = __atomic_load_n(&slot->paths.words[i], __ATOMIC_ACQUIRE);
    }
    consistent = before % 2 == 0 && __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED) == before;
  }
  memset(paths, 0, sizeof(*paths));
  paths->version = (before - flow->first_sequence) / 2;
  if (!consistent || read.set.serial != flow->serial || read.set.path_count > ESPALIER_MAX_PATHS) {
    return;
  }
  paths->path_count = read.set.path_count;
  paths->reason = read.set.reason;
  paths->max_rate_bps = read.set.max_rate_bps;
  memcpy(paths->source_port, read.set.source_port, sizeof(paths->source_port));
  memcpy(paths->weight, read.set.weight, sizeof(paths->weight));
}

uint64_t espalier_flow_id(const espalier_flow* flow) {
  return (uint64_t)flow->agent->client << 32 | flow->serial;
}

void espalier_flow_close(espalier_flow* flow) {
  espalier_agent* agent;
  if (flow == NULL) return;
  agent = flow->agent;
  pthread_mutex_lock(&agent->mutex);
  __atomic_store_n(&flow->slot->owner, 0, __ATOMIC_RELEASE);
  agent->flows[flow->index] = NULL;
  agent->free_slots[agent->free_count++] = flow->index;
  pthread_mutex_unlock(&agent->mutex);
  wake_agent(agent);
  free(flow);
}
