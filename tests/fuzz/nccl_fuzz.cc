// NCCL's calls of a profiler plugin in any order and with any handles, 24 bytes for each call.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "agent/nccl/profiler.h"
#include "common/base/check.h"

namespace espalier::nccl {
namespace {

struct Call {
  std::uint8_t what;
  std::uint8_t type;
  std::uint8_t context;
  std::uint8_t handle;
  std::uint8_t channel;
  std::uint8_t is_send;
  std::uint8_t function;
  std::uint8_t datatype;
  std::int32_t peer;
  std::int32_t steps;
  std::int32_t chunk_bytes;
  std::int32_t queue_pair;
};
static_assert(sizeof(Call) == 24);

void Told(std::uint32_t queue_pair, std::int64_t) {
  ESPALIER_CHECK(queue_pair > 0 && queue_pair < 1U << 24, "queue_pair={}", queue_pair);
}

// A handle that was returned before, or a number.
void* HandleOf(const std::vector<void*>& given, std::uint8_t number) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
  if (number >= given.size()) return reinterpret_cast<void*>(std::uintptr_t{number});
  return given[number];
}

void* Start(Profiler& profiler, const Call& call, void* context, void* parent) {
  constexpr std::array<const char*, 4> kFunctions = {nullptr, "AllReduce", "SendRecv", "?"};
  constexpr std::array<const char*, 4> kTypes = {nullptr, "ncclFloat32", "ncclInt8", "?"};
  void* of = parent;
  const ProxyOp op = {.process = getpid(),
                      .channel = call.channel,
                      .peer = call.peer,
                      .steps = call.steps,
                      .chunk_bytes = call.chunk_bytes,
                      .is_send = call.is_send};
  const QueuePairEvent post = {.type = call.function,
                               .queue_pair = call.queue_pair,
                               .bytes = static_cast<std::size_t>(call.chunk_bytes)};
  const NetPlugin plugin = {call.datatype == 0 ? 0 : kVerbsPlugin,
                            call.channel == 0 ? nullptr : &post};
  EventFields fields{.type = std::uint64_t{1} << (call.type % 9), .parent = &of};
  fields.function = kFunctions[call.function % kFunctions.size()];
  fields.datatype = kTypes[call.datatype % kTypes.size()];
  fields.count = static_cast<std::uint64_t>(call.steps) * static_cast<std::uint64_t>(call.peer);
  fields.channels = call.channel;
  if (fields.type == kProxyOp) fields.proxy_op = &op;
  if (fields.type == kNetPlugin) fields.net_plugin = &plugin;
  return profiler.Start(context, fields, nullptr);
}

}  // namespace
}  // namespace espalier::nccl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier::nccl;
  Profiler profiler;
  std::vector<void*> contexts;
  std::vector<void*> handles;
  for (Call call{}; size >= sizeof(call); data += sizeof(call), size -= sizeof(call)) {
    std::memcpy(&call, data, sizeof(call));
    void* const context = HandleOf(contexts, call.context);
    void* const handle = HandleOf(handles, call.handle);
    switch (call.what % 8) {
      case 0:
        contexts.push_back(profiler.Open(call.peer, &Told, nullptr, nullptr));
        break;
      case 1:
        profiler.Finalize(context);
        break;
      case 2:
        profiler.Record(handle, call.peer, nullptr);
        break;
      case 3:
        profiler.Stop(handle);
        break;
      default:
        handles.push_back(Start(profiler, call, context, handle));
    }
  }
  return 0;
}
