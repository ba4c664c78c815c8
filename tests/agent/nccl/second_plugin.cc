// A profiler plugin of versions 4 and 6 that records its calls, in a library of its own.
#include "tests/agent/nccl/second_plugin.h"

#include "agent/nccl/profiler_abi.h"

espalier::nccl::SecondPlugin* second_plugin() {
  static espalier::nccl::SecondPlugin plugin;
  return &plugin;
}

namespace espalier::nccl {
namespace {

constexpr int kFailure = 3;

int Open(void** context, int* mask, int ranks) {
  SecondPlugin& plugin = *second_plugin();
  const std::lock_guard lock(plugin.mutex);
  if (plugin.fails_to_open) return kFailure;
  __atomic_store_n(mask, plugin.mask, __ATOMIC_RELAXED);
  *context = &plugin.handles.at(plugin.handle_count++);
  plugin.last_ranks = ranks;
  ++plugin.opened;
  return kSuccess;
}

int Open4(void** context, int* mask, const char*, std::uint64_t, int, int ranks, int, Logger*) {
  return Open(context, mask, ranks);
}
int Open6(void** context, std::uint64_t, int* mask, const char*, int, int ranks, int, Logger*) {
  return Open(context, mask, ranks);
}

template <typename Descriptor, bool kHasGroup>
int Start(void* context, void** handle, void* given) {
  const auto& descriptor = *static_cast<const Descriptor*>(given);
  SecondPlugin& plugin = *second_plugin();
  const std::lock_guard lock(plugin.mutex);
  if (plugin.fails_to_start) return kFailure;
  *handle = &plugin.handles.at(plugin.handle_count++);
  void* group = nullptr;
  if (kHasGroup && descriptor.type == kCollective) group = descriptor.collective.group;
  plugin.starts.push_back({context, descriptor.type, descriptor.parent, group, *handle});
  return kSuccess;
}

int Stop(void* handle) {
  const std::lock_guard lock(second_plugin()->mutex);
  second_plugin()->stops.push_back(handle);
  return kSuccess;
}

int Record(void* handle, int, void* arguments) {
  const std::lock_guard lock(second_plugin()->mutex);
  second_plugin()->records.push_back(handle);
  second_plugin()->last_arguments = arguments;
  return kSuccess;
}

int Finalize(void* context) {
  const std::lock_guard lock(second_plugin()->mutex);
  second_plugin()->finalized.push_back(context);
  return kSuccess;
}

}  // namespace
}  // namespace espalier::nccl

using namespace espalier::nccl;

extern "C" {
extern const Plugin<InitV4> ncclProfiler_v4 = {
    "Second", &Open4, {&Start<DescriptorV4, false>, &Stop, &Record, &Finalize}};
extern const Plugin<InitV5> ncclProfiler_v6 = {
    "Second", &Open6, {&Start<DescriptorV6, true>, &Stop, &Record, &Finalize}};
}
