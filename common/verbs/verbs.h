#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/verbs/roce_address.h"

namespace espalier::verbs {

// A wrapper of libibverbs with owning pointers and Results. An object must end before the objects
// from which it was made.
// Thread safety: that of libibverbs (any thread), but only one thread at a time may change the
// state of a queue pair.
// Errors, unless stated otherwise: kUnsupported if the device or its driver lacks a feature,
// kResourceExhausted for a lack of memory or locked memory, else kInternal with the system's
// reason.

template <auto End>
struct Ender {
  template <typename Object>
  void operator()(Object* object) const {
    End(object);
  }
};

using Context = std::unique_ptr<ibv_context, Ender<ibv_close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Ender<ibv_dealloc_pd>>;
using MemoryRegion = std::unique_ptr<ibv_mr, Ender<ibv_dereg_mr>>;
using CompletionChannel = std::unique_ptr<ibv_comp_channel, Ender<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Ender<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, Ender<ibv_destroy_qp>>;

// Errors: kNotFound.
Result<Context> OpenDevice(const std::string& name);
Result<ProtectionDomain> MakeProtectionDomain(ibv_context& context);
// Registers memory that this host reads and writes, and that peers may write.
Result<MemoryRegion> RegisterMemory(ibv_pd& domain, void* memory, std::size_t bytes);
// Makes a channel with a non-blocking descriptor.
Result<CompletionChannel> MakeCompletionChannel(ibv_context& context);
Result<CompletionQueue> MakeCompletionQueue(ibv_context& context, int entries,
                                            ibv_comp_channel* channel);

struct QueuePairLimits {
  std::uint32_t sends = 64;
  std::uint32_t receives = 64;
  std::uint32_t inline_bytes = 0;
};
// Makes a queue pair for a reliable connection, in state INIT. Sends and receives complete in one
// queue. Only signalled requests have completions.
Result<QueuePair> MakeQueuePair(ibv_pd& domain, ibv_cq& queue, const QueuePairLimits& limits,
                                std::uint8_t port);

// The remote end of a connection.
struct RemoteEnd {
  IpAddress address;
  std::uint32_t number = 0;
  std::uint32_t first_packet = 0;  // packet sequence number, 24 bits
};

// How long a path may be dead before its queue pair fails: 1 + retries tries, each as long as
// 4.096 us * 2^timeout_log2, or as the driver's minimum if that is longer.
struct RetryPolicy {
  std::uint8_t timeout_log2 = 14;  // 67 ms
  std::uint8_t retries = 6;        // Soft RoCE takes 7 as unlimited
};

// Moves the queue pair from INIT over RTR to RTS. `flow_label` determines the source port of
// everything that this end sends (source_port.h). `path_mtu_bytes`: MTU that both ends support.
Result<void> Connect(ibv_qp& pair, const RoceAddress& local, const RemoteEnd& remote,
                     std::uint32_t first_packet, std::uint32_t flow_label, int path_mtu_bytes,
                     const RetryPolicy& patience);
// Moves the queue pair to the error state, which flushes all posted requests.
void Break(ibv_qp& pair);

// Returns the Error of a call that failed with this errno value.
Error ErrorOf(const std::string& what, int error);

}  // namespace espalier::verbs
