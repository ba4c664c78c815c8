#define _GNU_SOURCE
#include "agent/local/espalier_agent.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/local/agent_call.h"
#include "agent/local/local_protocol.h"

enum {
  kConnectTimeoutMs = 5000,

  kGraceSeconds = 30, /* a restart takes one second, an upgrade of the package longer */
  kMaxGraceSeconds = 3600,
  kSeekEveryMs = 200 /* looking for an agent is one system call of some microseconds */
};

struct espalier_flow {
  espalier_agent* agent;
  struct espalier_local_slot* slot;
  uint32_t index;
  uint32_t serial;
};

struct espalier_agent {
  char path[sizeof(((struct sockaddr_un*)0)->sun_path)];
  char job[ESPALIER_JOB_BYTES]; /* of this process; "": none */
  int64_t grace_ms;
  int ready;       /* epoll of the sockets and the timer */
  uint32_t client; /* client number that the latest agent gave */
  /* Its address never changes: the file of another agent is mapped over it. An older agent's file
   * is shorter; the end is then private memory that nobody reads. */
  struct espalier_local_memory* memory;
  pthread_mutex_t mutex; /* guards what follows */
  int socket;            /* while the agent is away: of the one that has gone */
  int caller;            /* while it is away: socket without an answer yet; -1: none */
  int timer;             /* while it is away: fires when to look for it; -1: none */
  int64_t away_until_ms; /* while it is away: end of the grace time */
  int away;              /* 1: the agent has hung up */
  int gone;              /* 1: the grace time has passed, or the descriptors are lost */
  /* A program may close descriptors that are not its own, as daemons do when they start, and open
   * others with the same numbers. `socket` is then another file than this, and no descriptor of
   * this library may be used or closed any more (lost: 1). */
  struct espalier_open_file file;
  int lost;
  uint32_t last_serial;
  uint32_t slots_used;
  uint32_t free_count;
  uint32_t free_slots[ESPALIER_LOCAL_SLOTS]; /* stack of slots that have become free */
  espalier_flow* flows[ESPALIER_LOCAL_SLOTS];
};

static int is_job(const char* job) {
  const char* c;
  if (strnlen(job, ESPALIER_JOB_BYTES) == ESPALIER_JOB_BYTES) return 0;
  for (c = job; *c != '\0'; ++c) {
    if (*c < 0x20 || *c > 0x7e) return 0;
  }
  return 1;
}

/* Reads the environment, once, as the program may change it on another thread later. */
static void read_environment(const char* socket_path, espalier_agent* agent) {
  static const char* const kJobs[] = {"ESPALIER_JOB", "SLURM_JOB_ID"};
  const char* const grace = getenv("ESPALIER_AGENT_GRACE_SECONDS");
  const char* text;
  char* end = NULL;
  long seconds = kGraceSeconds;
  size_t i;
  if (socket_path == NULL) socket_path = getenv("ESPALIER_AGENT_SOCKET");
  if (socket_path == NULL || socket_path[0] == '\0') socket_path = ESPALIER_AGENT_DEFAULT_SOCKET;
  if (strlen(socket_path) < sizeof(agent->path)) strcpy(agent->path, socket_path);
  for (i = 0; i < sizeof(kJobs) / sizeof(kJobs[0]) && agent->job[0] == '\0'; ++i) {
    text = getenv(kJobs[i]);
    if (text != NULL && is_job(text)) strcpy(agent->job, text);
  }
  if (grace != NULL && grace[0] >= '0' && grace[0] <= '9') {
    seconds = strtol(grace, &end, 10);
    if (*end != '\0' || seconds > kMaxGraceSeconds) seconds = kGraceSeconds;
  }
  agent->grace_ms = (int64_t)seconds * 1000;
}

static int watch(const espalier_agent* agent, int fd) {
  struct epoll_event event;
  memset(&event, 0, sizeof(event));
  event.events = EPOLLIN;
  return epoll_ctl(agent->ready, EPOLL_CTL_ADD, fd, &event);
}

/* Closes the descriptor, if there is one. It is also removed from the epoll, as a child process may
 * keep it open. */
static void unwatch(const espalier_agent* agent, int* fd) {
  if (*fd < 0) return;
  epoll_ctl(agent->ready, EPOLL_CTL_DEL, *fd, NULL);
  close(*fd);
  *fd = -1;
}

/* Returns whether the descriptors are still those that this library has opened. */
static int has_descriptors(espalier_agent* agent) {
  if (agent->socket >= 0 && !espalier_is_behind(agent->socket, &agent->file)) agent->lost = 1;
  return !agent->lost;
}

/* Frees the agent without its flows. After a fork the epoll is also the parent's, so it is left
 * unchanged. */
static void free_agent(espalier_agent* agent) {
  if (has_descriptors(agent)) {
    if (agent->socket >= 0) close(agent->socket);
    if (agent->caller >= 0) close(agent->caller);
    if (agent->timer >= 0) close(agent->timer);
    if (agent->ready >= 0) close(agent->ready);
  }
  if (agent->memory != MAP_FAILED) munmap(agent->memory, sizeof(*agent->memory));
  pthread_mutex_destroy(&agent->mutex);
  free(agent);
}

static espalier_agent* make_agent(const char* socket_path) {
  espalier_agent* agent = calloc(1, sizeof(*agent));
  if (agent == NULL) return NULL;
  read_environment(socket_path, agent);
  pthread_mutex_init(&agent->mutex, NULL);
  agent->socket = agent->caller = agent->timer = -1;
  agent->ready = epoll_create1(EPOLL_CLOEXEC);
  agent->memory = mmap(NULL, sizeof(*agent->memory), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (agent->ready < 0 || agent->memory == MAP_FAILED) {
    free_agent(agent);
    return NULL;
  }
  return agent;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int espalier_agent_connect(const char* socket_path, espalier_agent** agent) {
  struct espalier_local_welcome welcome;
  espalier_agent* made = make_agent(socket_path);
  const int64_t end_ms = now_ms() + kConnectTimeoutMs;
  int64_t left_ms;
  int memory;
  int status = 0;
  if (made == NULL) return -ENOMEM;
  made->socket = espalier_call_agent(made->path, 0, kConnectTimeoutMs);
  made->file = espalier_file_behind(made->socket);
  left_ms = end_ms - now_ms();
  memory = made->socket < 0
               ? made->socket
               : espalier_receive_welcome(made->socket, left_ms > 0 ? (int)left_ms : 0, &welcome);
  if (memory < 0) {
    status = memory;
  } else {
    if (mmap(made->memory, espalier_known_bytes(memory), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED ||
        watch(made, made->socket) != 0) {
      status = -ENOMEM;
    }
    close(memory);
  }
  if (status != 0) {
    free_agent(made);
    return status;
  }
  made->client = welcome.client;
  *agent = made;
  return 0;
}

void espalier_agent_close(espalier_agent* agent) {
  uint32_t i;
  if (agent == NULL) return;
  for (i = 0; i < ESPALIER_LOCAL_SLOTS; ++i) free(agent->flows[i]);
  free_agent(agent); /* the agent then notices the hang-up and ends the flows */
}

int espalier_agent_fd(const espalier_agent* agent) { return agent->ready; }

/* Makes the agent look at the memory; the caller holds the mutex. */
static void wake_agent(espalier_agent* agent) {
  const uint32_t wake = ESPALIER_LOCAL_WAKE;
  if (agent->away || !has_descriptors(agent)) return; /* the agent looks when it is back */
  /* EAGAIN: an earlier wake-up is still unread. EPIPE: dispatch will notice it. */
  (void)send(agent->socket, &wake, sizeof(wake), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Copies a flow to its slot in another agent's memory, which no other thread uses yet. */
static void carry_over(const espalier_flow* flow, struct espalier_local_memory* to, size_t bytes) {
  const struct espalier_local_memory* const from = flow->agent->memory;
  int i;
  espalier_copy_slot(&from->slots[flow->index], flow->serial, &to->slots[flow->index]);
  for (i = 0; i < ESPALIER_MAX_PATHS && bytes == sizeof(*to); ++i) {
    to->paths[flow->index][i] = from->paths[flow->index][i];
  }
  to->slots[flow->index].owner = flow->serial;
}

/* Replaces the memory by that of an agent that has returned. Returns a negative errno on failure.
 */
static int take_memory(espalier_agent* agent, int memory) {
  const size_t bytes = espalier_known_bytes(memory);
  struct espalier_local_memory* fresh =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  void* mapped;
  uint32_t i;
  if (fresh == MAP_FAILED) return -ENOMEM;
  fresh->header.slots_used = agent->slots_used;
  for (i = 0; i < agent->slots_used; ++i) {
    if (agent->flows[i] != NULL) carry_over(agent->flows[i], fresh, bytes);
  }
  munmap(fresh, bytes);
  /* Replaces it for all threads at once, as they read path sets and write progress without the
   * mutex. */
  mapped = mmap(agent->memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0);
  return mapped == MAP_FAILED ? -ENOMEM : 0;
}

/* Writes empty path sets, as there is no agent to write them. */
static void give_up(espalier_agent* agent) {
  uint32_t i;
  agent->gone = 1;
  for (i = 0; i < agent->slots_used; ++i) {
    struct espalier_local_slot* slot = &agent->memory->slots[i];
    union espalier_local_paths none;
    memset(&none, 0, sizeof(none));
    none.set.serial = __atomic_load_n(&slot->owner, __ATOMIC_RELAXED);
    espalier_local_write_paths(slot, __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED), &none);
  }
}

/* Lifts rate limits, which nobody adapts while there is no agent; ports stay. */
static void lift_rates(espalier_agent* agent) {
  uint32_t i;
  for (i = 0; i < agent->slots_used; ++i) {
    struct espalier_local_slot* slot = &agent->memory->slots[i];
    union espalier_local_paths paths;
    uint64_t version;
    if (!espalier_local_read_paths(slot, &paths, &version) || paths.set.max_rate_bps == 0) continue;
    paths.set.max_rate_bps = 0;
    espalier_local_write_paths(slot, __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED), &paths);
  }
}

/* Handles that the agent has hung up. After giving up, the timer or the socket stays readable. */
static void lose_agent(espalier_agent* agent) {
  const struct itimerspec every = {{0, kSeekEveryMs * 1000000L}, {0, kSeekEveryMs * 1000000L}};
  if (agent->grace_ms > 0) {
    agent->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  }
  if (agent->timer < 0 || timerfd_settime(agent->timer, 0, &every, NULL) != 0 ||
      watch(agent, agent->timer) != 0) {
    give_up(agent);
    return;
  }
  epoll_ctl(agent->ready, EPOLL_CTL_DEL, agent->socket, NULL);
  lift_rates(agent);
  agent->away = 1;
  agent->away_until_ms = now_ms() + agent->grace_ms;
}

/* Looks for an agent while there is none; returns at once. */
static void seek_agent(espalier_agent* agent) {
  struct espalier_local_welcome welcome;
  uint64_t ticks;
  int memory;
  if (now_ms() >= agent->away_until_ms) {
    unwatch(agent, &agent->caller);
    give_up(agent);
    return;
  }
  if (read(agent->timer, &ticks, sizeof(ticks)) < 0) ticks = 0; /* the timer has not fired */
  if (agent->caller < 0) {
    agent->caller = espalier_call_agent(agent->path, SOCK_NONBLOCK, 0);
    if (agent->caller < 0 || watch(agent, agent->caller) != 0) {
      unwatch(agent, &agent->caller);
      return;
    }
  }
  memory = espalier_receive_welcome(agent->caller, 0, &welcome);
  if (memory == -ETIMEDOUT) return; /* not yet */
  if (memory < 0 || take_memory(agent, memory) != 0) {
    unwatch(agent, &agent->caller);
  } else {
    __atomic_store_n(&agent->client, welcome.client, __ATOMIC_RELAXED);
    close(agent->socket);
    agent->socket = agent->caller;
    agent->file = espalier_file_behind(agent->socket);
    agent->caller = -1;
    agent->away = 0;
    unwatch(agent, &agent->timer);
    wake_agent(agent);
  }
  if (memory >= 0) close(memory);
}

/* Reads all wake-ups; returns 0 if the agent has hung up. */
static int read_wakes(const espalier_agent* agent) {
  char wake[64];
  ssize_t size;
  do {
    size = recv(agent->socket, wake, sizeof(wake), MSG_DONTWAIT);
  } while (size > 0 || (size < 0 && errno == EINTR));
  return size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

int espalier_agent_dispatch(espalier_agent* agent) {
  int gone;
  pthread_mutex_lock(&agent->mutex);
  if (!agent->gone && !has_descriptors(agent)) give_up(agent);
  if (!agent->gone && !agent->away && !read_wakes(agent)) lose_agent(agent);
  if (!agent->gone && agent->away) seek_agent(agent);
  gone = agent->gone;
  pthread_mutex_unlock(&agent->mutex);
  return gone ? -EPIPE : 0;
}

static int is_valid(const struct espalier_flow_desc* desc) {
  static const uint8_t none[16] = {0};
  return is_job(desc->job) && memcmp(desc->source, none, 16) != 0 &&
         memcmp(desc->destination, none, 16) != 0 &&
         (desc->protocol == 6 || desc->protocol == 17) && desc->max_paths >= 1 &&
         desc->max_paths <= ESPALIER_MAX_PATHS && desc->movable <= 1 &&
         desc->destination_port != 0 && desc->local_qpn < 1u << 24 && desc->remote_qpn < 1u << 24;
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
  __atomic_store_n(&flow->slot->first_sequence,
                   __atomic_load_n(&flow->slot->sequence, __ATOMIC_ACQUIRE) & ~(uint64_t)1,
                   __ATOMIC_RELEASE);
  return 0;
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
    if (desc->job[0] == '\0') memcpy(made->slot->flow.job, agent->job, sizeof(agent->job));
    espalier_flow_progress(made, desc->remaining_bytes, 0, 0, desc->source_port);
    espalier_flow_transport(made, 0, 0);
    espalier_flow_timeout(made, 0, 0);
    espalier_flow_edges(made, 0, 0, 0);
    for (path = 0; path < ESPALIER_MAX_PATHS; ++path) {
      espalier_flow_path_progress(made, path, 0, 0, 0, 0);
    }
    __atomic_store_n(&made->slot->owner, made->serial, __ATOMIC_RELEASE);
    wake_agent(agent);
  }
  pthread_mutex_unlock(&agent->mutex);
  if (status != 0) {
    free(made);
    return status;
  }
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

void espalier_flow_timeout(espalier_flow* flow, uint32_t timeout_us, uint32_t repetitions) {
  __atomic_store_n(&flow->slot->timeout_us, timeout_us, __ATOMIC_RELAXED);
  __atomic_store_n(&flow->slot->repetitions, repetitions, __ATOMIC_RELAXED);
}

void espalier_flow_path_progress(espalier_flow* flow, uint32_t path, uint16_t source_port,
                                 uint64_t outstanding_bytes, uint64_t sent_bytes,
                                 uint32_t retries) {
  struct espalier_local_path* part;
  if (path >= ESPALIER_MAX_PATHS) return;
  part = &flow->agent->memory->paths[flow->index][path];
  __atomic_store_n(&part->outstanding_bytes, outstanding_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&part->sent_bytes, sent_bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&part->retries, retries, __ATOMIC_RELAXED);
  __atomic_store_n(&part->source_port, source_port, __ATOMIC_RELAXED);
}

void espalier_flow_edges(espalier_flow* flow, uint32_t edges, uint64_t last_edge_ns,
                         uint64_t between_ns) {
  const uint64_t between_us = between_ns / 1000;
  __atomic_store_n(&flow->slot->last_edge_ns, last_edge_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&flow->slot->between_edges_us,
                   between_us > UINT32_MAX ? UINT32_MAX : (uint32_t)between_us, __ATOMIC_RELAXED);
  __atomic_store_n(&flow->slot->edges, edges, __ATOMIC_RELEASE);
}

int espalier_flow_set_local_qpn(espalier_flow* flow, uint32_t local_qpn) {
  espalier_agent* const agent = flow->agent;
  struct espalier_local_slot* const slot = flow->slot;
  union espalier_local_paths paths;
  uint64_t version;
  int status = 0;
  int has_paths;
  int i;
  if (local_qpn >= 1u << 24) return -EINVAL;
  pthread_mutex_lock(&agent->mutex);
  if (agent->gone) status = -EPIPE;
  if (agent->last_serial == UINT32_MAX) status = -ENOSPC;
  if (status == 0) {
    has_paths = espalier_local_read_paths(slot, &paths, &version) &&
                paths.set.serial == flow->serial && paths.set.path_count > 0;
    __atomic_store_n(&slot->owner, 0, __ATOMIC_RELEASE);
    slot->flow.local_qpn = local_qpn;
    flow->serial = ++agent->last_serial;
    /* The agent takes the path set over as it does after its own restart. It names the new serial,
     * so what the agent may write for the old one meanwhile counts for neither. */
    paths.set.serial = flow->serial;
    for (i = 0; has_paths && i < ESPALIER_LOCAL_PATH_WORDS; ++i) {
      __atomic_store_n(&slot->paths.words[i], paths.words[i], __ATOMIC_RELAXED);
    }
    __atomic_store_n(&slot->owner, flow->serial, __ATOMIC_RELEASE);
    wake_agent(agent);
  }
  pthread_mutex_unlock(&agent->mutex);
  return status;
}

uint64_t espalier_flow_version(const espalier_flow* flow) {
  return espalier_local_version(flow->slot);
}

void espalier_flow_paths(const espalier_flow* flow, struct espalier_path_set* paths) {
  union espalier_local_paths read;
  uint64_t version;
  const int consistent = espalier_local_read_paths(flow->slot, &read, &version);
  memset(paths, 0, sizeof(*paths));
  paths->version = version;
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
  return (uint64_t)__atomic_load_n(&flow->agent->client, __ATOMIC_RELAXED) << 32 | flow->serial;
}

void espalier_flow_close(espalier_flow* flow) {
  espalier_agent* agent;
  if (flow == NULL) return;
  agent = flow->agent;
  pthread_mutex_lock(&agent->mutex);
  __atomic_store_n(&flow->slot->owner, 0, __ATOMIC_RELEASE);
  agent->flows[flow->index] = NULL;
  agent->free_slots[agent->free_count++] = flow->index;
  wake_agent(agent);
  pthread_mutex_unlock(&agent->mutex);
  free(flow);
}
