#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/verbs/roce_address.h"

namespace espalier::verbs {

// libibverbs with owners and Results. What is made from something must end before it. Thread
// safety: as libibverbs has it, that is any thread, but one at a time moves a queue pair.
// Errors, where nothing else is said: kUnsupported for what the device or its driver does not do,
// kResourceExhausted for want of memory or locked memory, else kInternal with the system's reason.

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
// Readable and writable from here, writable by peers.
Result<MemoryRegion> RegisterMemory(ibv_pd& domain, void* memory, std::size_t bytes);
// Its descriptor does not block.
Result<CompletionChannel> MakeCompletionChannel(ibv_context& context);
Result<CompletionQueue> MakeCompletionQueue(ibv_context& context, int entries,
                                            ibv_comp_channel* channel);

// A reliable connection, in state INIT. Work requests complete in one queue, and only those that
// ask for it.
struct QueuePairLimits {
  std::uint32_t sends = 64;
  std::uint32_t receives = 64;
  std::uint32_t inline_bytes = 0;
};
Result<QueuePair> MakeQueuePair(ibv_pd& domain, ibv_cq& queue, const QueuePairLimits& limits,
                                std::uint8_t port);

// The other end.
struct RemoteEnd {
  IpAddress address;
  std::uint32_t number = 0;
  std::uint32_t first_packet = 0;  // 24 bits
};

// How long a path may be dead before its queue pair fails: 1 + retries tries, each as long as
// 4.096 us * 2^timeout_log2, or as the driver's minimum if that is longer.
struct RetryPolicy {
  std::uint8_t timeout_log2 = 14;  // 67 ms
  std::uint8_t retries = 6;        // 7 means for ever to soft RoCE
};

// INIT -> RTR -> RTS. `flow_label` decides the source port of all that this end sends
// (source_port.h). The path's MTU is what both ends' ports can do: `path_mtu_bytes`.
Result<void> Connect(ibv_qp& pair, const RoceAddress& local, const RemoteEnd& remote,
                     std::uint32_t first_packet, std::uint32_t flow_label, int path_mtu_bytes,
                     const RetryPolicy& patience);
// Everything that is posted is flushed.
void Break(ibv_qp& pair);

// An Error for a call that failed with this errno value.
Error ErrorOf(const std::string& what, int error);

}  // namespace espalier::verbs
