#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "agent/nccl/profiler_abi.h"

namespace espalier::nccl {

// The build defines the folder of the libraries.
inline void* Load(const std::string& name) {
  void* const library = dlopen((ESPALIER_LIBRARIES "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return library;
}

// Calls a plugin of one version as NCCL does.
template <typename InitType, typename DescriptorType, bool kHasGroup>
class Version {
 public:
  using Init = InitType;
  using Descriptor = DescriptorType;

  explicit Version(const char* symbol)
      : plugin_(
            static_cast<const Plugin<Init>*>(dlsym(Load("libnccl-profiler-espalier.so"), symbol))) {
  }

  const Plugin<Init>& plugin() const { return *plugin_; }

  // Returns the activation mask, and sets the context.
  int Open(void*& context, int ranks = 4) const {
    int mask = -1;
    int result = 0;
    if constexpr (std::is_same_v<Init, InitV3>) {
      result = plugin_->init(&context, &mask);
    } else if constexpr (std::is_same_v<Init, InitV4>) {
      result = plugin_->init(&context, &mask, "a name", 7, 2, ranks, 1, nullptr);
    } else {
      result = plugin_->init(&context, 7, &mask, "a name", 2, ranks, 1, nullptr);
    }
    EXPECT_EQ(result, kSuccess);
    return mask;
  }

  void* Start(void* context, Descriptor descriptor) const {
    void* handle = &descriptor;
    EXPECT_EQ(plugin_->calls.start(context, &handle, &descriptor), kSuccess);
    return handle;
  }
  void* StartGroup(void* context) const {
    Descriptor descriptor{};
    descriptor.type = 1;
    return Start(context, descriptor);
  }
  void* StartCollective(void* context, void* group, const char* function, std::size_t count,
                        const char* datatype, std::uint8_t channels) const {
    Descriptor descriptor{};
    descriptor.type = static_cast<decltype(descriptor.type)>(kCollective);
    descriptor.parent = group;
    descriptor.collective.function = function;
    descriptor.collective.count = count;
    descriptor.collective.datatype = datatype;
    descriptor.collective.channels = channels;
    if constexpr (kHasGroup) descriptor.collective.group = group;
    return Start(context, descriptor);
  }
  void* StartPointToPoint(void* context, std::size_t count, const char* datatype) const {
    Descriptor descriptor{};
    descriptor.type = static_cast<decltype(descriptor.type)>(kPointToPoint);
    descriptor.point_to_point.function = "Send";
    descriptor.point_to_point.count = count;
    descriptor.point_to_point.datatype = datatype;
    return Start(context, descriptor);
  }
  void* StartOp(void* context, void* parent, ProxyOp op) const {
    Descriptor descriptor{};
    descriptor.type = static_cast<decltype(descriptor.type)>(kProxyOp);
    descriptor.parent = parent;
    descriptor.proxy_op = op;
    return Start(context, descriptor);
  }
  void* StartStep(void* context, void* op) const {
    Descriptor descriptor{};
    descriptor.type = static_cast<decltype(descriptor.type)>(kProxyStep);
    descriptor.parent = op;
    return Start(context, descriptor);
  }
  void* StartPost(void* context, void* step, QueuePairEvent post,
                  std::int64_t id = kVerbsPlugin) const {
    Descriptor descriptor{};
    descriptor.type = static_cast<decltype(descriptor.type)>(kNetPlugin);
    descriptor.parent = step;
    descriptor.net_plugin = {id, &post};
    return Start(context, descriptor);
  }
  void Stop(void* handle) const { EXPECT_EQ(plugin_->calls.stop(handle), kSuccess); }
  void Record(void* handle, int state, void* arguments) const {
    EXPECT_EQ(plugin_->calls.record(handle, state, arguments), kSuccess);
  }
  void Finalize(void* context) const { EXPECT_EQ(plugin_->calls.finalize(context), kSuccess); }

  // Runs a step of an operation that posts so many bytes on a queue pair.
  void Post(void* context, void* op, int queue_pair, std::size_t bytes) const {
    void* const step = StartStep(context, op);
    void* const post =
        StartPost(context, step, {.type = 1, .queue_pair = queue_pair, .bytes = bytes});
    Stop(post);
    Stop(step);
  }

 private:
  const Plugin<Init>* plugin_;
};

struct Version3 : Version<InitV3, DescriptorV3, false> {
  Version3() : Version("ncclProfiler_v3") {}
};
struct Version4 : Version<InitV4, DescriptorV4, false> {
  Version4() : Version("ncclProfiler_v4") {}
};
struct Version5 : Version<InitV5, DescriptorV5, true> {
  Version5() : Version("ncclProfiler_v5") {}
};
struct Version6 : Version<InitV5, DescriptorV6, true> {
  Version6() : Version("ncclProfiler_v6") {}
};

inline ProxyOp Sending(int channel, int peer, int steps, int chunk_bytes) {
  return {.process = getpid(),
          .channel = static_cast<std::uint8_t>(channel),
          .peer = peer,
          .steps = steps,
          .chunk_bytes = chunk_bytes,
          .is_send = 1};
}

}  // namespace espalier::nccl
