// The interface between NCCL and its profiler plugins: the layouts of ncclProfiler_v3 to
// ncclProfiler_v6, as NCCL's documentation describes them. Older versions do not report queue
// pairs. Descriptors may end before or after what is declared here, so they are never copied.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace espalier::nccl {

// Event types, as bits of the activation mask.
enum EventType : std::uint64_t {
  kCollective = 1U << 1,
  kPointToPoint = 1U << 2,
  kProxyOp = 1U << 3,
  kProxyStep = 1U << 4,
  kProxyControl = 1U << 5,
  kKernelChannel = 1U << 6,
  kNetPlugin = 1U << 7,
};

struct CollectiveV3 {
  const char* communicator;
  std::uint64_t communicator_hash;
  std::uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels;
};

struct PointToPointV3 {
  const char* communicator;
  std::uint64_t communicator_hash;
  const char* function;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
};

struct CollectiveV4 {
  std::uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* datatype;
  std::uint8_t channels;
  std::uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* group;  // from version 5 on: a handle
};

struct PointToPointV4 {
  const char* function;
  void* buffer;
  const char* datatype;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* group;  // from version 5 on: a handle
};

// The proxy thread's part of a collective, on one channel and with one peer.
struct ProxyOp {
  pid_t process;  // to which the parent's handle belongs
  std::uint8_t channel;
  int peer;
  int steps;
  int chunk_bytes;  // at most, in one step
  int is_send;
};

// An event of a network plugin; the plugin of this id defines the layout of `data`.
struct NetPlugin {
  std::int64_t id;
  const void* data;
};

// The id of NCCL's own plugin for InfiniBand and RoCE, with version 1 of its events.
inline constexpr std::int64_t kVerbsPlugin = (1 << 16) | 1;
inline constexpr std::uint8_t kQueuePairEvent = 1;

// A work request was posted.
struct QueuePairEvent {
  alignas(8) std::uint8_t type;  // the other members are one of a union
  alignas(8) int device;
  std::uint64_t request;
  int opcode;
  int queue_pair;
  std::size_t bytes;
};

template <typename Type, typename Collective, typename PointToPoint>
struct Descriptor {
  Type type;
  void* parent;
  int rank;
  union {
    Collective collective;
    PointToPoint point_to_point;
    ProxyOp proxy_op;
    NetPlugin net_plugin;
  };
};
using DescriptorV3 = Descriptor<std::uint8_t, CollectiveV3, PointToPointV3>;
using DescriptorV4 = Descriptor<std::uint8_t, CollectiveV4, PointToPointV4>;
using DescriptorV5 = Descriptor<std::uint64_t, CollectiveV4, PointToPointV4>;
using DescriptorV6 = DescriptorV5;  // its additions are not read

static_assert(offsetof(DescriptorV3, collective) == 24 && offsetof(DescriptorV5, collective) == 24);
static_assert(offsetof(CollectiveV3, count) == 48 && offsetof(CollectiveV3, channels) == 72);
static_assert(offsetof(CollectiveV4, count) == 32 && offsetof(CollectiveV4, group) == 80);
static_assert(offsetof(PointToPointV3, count) == 40 && offsetof(PointToPointV4, group) == 40);
static_assert(offsetof(QueuePairEvent, queue_pair) == 28 && offsetof(QueuePairEvent, bytes) == 32);

// ncclResult_t.
inline constexpr int kSuccess = 0;
inline constexpr int kInvalidArgument = 4;

using Logger = void();  // NCCL's; only passed on

// The functions that differ between versions only in the descriptor.
struct Calls {
  int (*start)(void* context, void** handle, void* descriptor);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};

// The symbol ncclProfiler_vN that a plugin exports.
template <typename Init>
struct Plugin {
  const char* name;
  Init* init;
  Calls calls;
};
using InitV3 = int(void** context, int* mask);
using InitV4 = int(void** context, int* mask, const char* name, std::uint64_t hash, int nodes,
                   int ranks, int rank, Logger* logger);
using InitV5 = int(void** context, std::uint64_t hash, int* mask, const char* name, int nodes,
                   int ranks, int rank, Logger* logger);

}  // namespace espalier::nccl
