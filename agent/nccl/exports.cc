// libnccl-profiler-espalier: the symbols that NCCL looks for in a profiler plugin.
#include <dlfcn.h>

#include <cstdlib>
#include <exception>
#include <string>

#include "agent/nccl/profiler.h"
#include "agent/nccl/profiler_abi.h"

namespace espalier::nccl {
namespace {

// NCCL calls through a C interface, so no exception may leave: it would end a program that works
// without a profiler. After a failure, such as a lack of memory in a container, the event counts as
// not reported.
template <typename Work>
void Attempt(Work&& work) noexcept {
  try {
    work();
  } catch (const std::exception& exception) {
    WarnOnce(exception.what());
  } catch (...) {
    WarnOnce("an unknown exception");
  }
}

// Lives as long as the process, as other libraries may call it while they are unloaded.
Profiler& TheProfiler() {
  static Profiler& profiler = *new Profiler;
  return profiler;
}

// Finds the shim of this process, whether its front was preloaded or NCCL loaded it, by whatever
// name.
Expect* FindShim() {
  constexpr const char* kSymbol = "espalier_verbs_expect";
  void* found = dlsym(RTLD_DEFAULT, kSymbol);
  for (const char* const file :
       {"libespalier-verbs.so", "libibverbs.so", "libespalier-engine.so"}) {
    if (found != nullptr) break;
    void* const library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) found = dlsym(library, kSymbol);
  }
  return reinterpret_cast<Expect*>(found);
}

// Finds the symbol of this version in the other plugin, which ESPALIER_NCCL_PROFILER names in the
// same way as NCCL_PROFILER_PLUGIN would.
void* FindOther(const char* symbol, const void* ours) {
  const char* const name = std::getenv("ESPALIER_NCCL_PROFILER");
  if (name == nullptr || *name == '\0') return nullptr;
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string file = std::string("libnccl-profiler-") + name + ".so";
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    WarnOnce("the profiler plugin named by ESPALIER_NCCL_PROFILER cannot be loaded");
    return nullptr;
  }
  void* const found = dlsym(library, symbol);
  if (found == nullptr) WarnOnce("the other profiler plugin lacks the version that NCCL uses");
  if (found == ours) WarnOnce("ESPALIER_NCCL_PROFILER must name another plugin than this one");
  return found == ours ? nullptr : found;
}

// `init` calls the other plugin's function of that name.
template <typename Init, typename CallInit>
int Open(void** context, int* mask, int ranks, const char* symbol, const Plugin<Init>& ours,
         CallInit&& init) {
  if (context == nullptr || mask == nullptr) return kInvalidArgument;
  *context = nullptr;
  *mask = 0;
  Attempt([&] {
    Profiler& profiler = TheProfiler();
    const auto* other = static_cast<const Plugin<Init>*>(FindOther(symbol, &ours));
    void* other_context = nullptr;
    if (other != nullptr &&
        init(*other->init, &other_context, &profiler.other_mask()) != kSuccess) {
      WarnOnce("the other profiler plugin did not start");
      other = nullptr;
    }
    *context =
        profiler.Open(ranks, FindShim(), other == nullptr ? nullptr : &other->calls, other_context);
    *mask = profiler.ActivationMask();
  });
  return kSuccess;
}

template <typename Call>
void ReadCall(Call& call, EventFields& fields) {
  fields.function = call.function;
  fields.datatype = call.datatype;
  fields.count = call.count;
  if constexpr (requires { call.channels; }) fields.channels = call.channels;
}

template <typename Descriptor, bool kHasGroup>
int Start(void* context, void** handle, void* given) {
  if (handle == nullptr) return kSuccess;
  *handle = nullptr;
  if (given == nullptr) return kSuccess;
  Descriptor& descriptor = *static_cast<Descriptor*>(given);
  EventFields fields{.type = descriptor.type, .parent = &descriptor.parent};
  if (fields.type == kCollective) {
    ReadCall(descriptor.collective, fields);
    if constexpr (kHasGroup) fields.group = &descriptor.collective.group;
  } else if (fields.type == kPointToPoint) {
    ReadCall(descriptor.point_to_point, fields);
    if constexpr (kHasGroup) fields.group = &descriptor.point_to_point.group;
  } else if (fields.type == kProxyOp) {
    fields.proxy_op = &descriptor.proxy_op;
  } else if (fields.type == kNetPlugin) {
    fields.net_plugin = &descriptor.net_plugin;
  }
  Attempt([&] { *handle = TheProfiler().Start(context, fields, given); });
  return kSuccess;
}

int Stop(void* handle) {
  Attempt([&] { TheProfiler().Stop(handle); });
  return kSuccess;
}

int Record(void* handle, int state, void* arguments) {
  Attempt([&] { TheProfiler().Record(handle, state, arguments); });
  return kSuccess;
}

int Finalize(void* context) {
  Attempt([&] { TheProfiler().Finalize(context); });
  return kSuccess;
}

template <typename Descriptor, bool kHasGroup>
constexpr Calls kCalls = {&Start<Descriptor, kHasGroup>, &Stop, &Record, &Finalize};

InitV3 Init3;
InitV4 Init4;
InitV5 Init5;
InitV5 Init6;

}  // namespace
}  // namespace espalier::nccl

using namespace espalier::nccl;

extern "C" {
#define ESPALIER_EXPORT __attribute__((visibility("default"), used))
ESPALIER_EXPORT extern const Plugin<InitV3> ncclProfiler_v3 = {"Espalier", &Init3,
                                                               kCalls<DescriptorV3, false>};
ESPALIER_EXPORT extern const Plugin<InitV4> ncclProfiler_v4 = {"Espalier", &Init4,
                                                               kCalls<DescriptorV4, false>};
ESPALIER_EXPORT extern const Plugin<InitV5> ncclProfiler_v5 = {"Espalier", &Init5,
                                                               kCalls<DescriptorV5, true>};
ESPALIER_EXPORT extern const Plugin<InitV5> ncclProfiler_v6 = {"Espalier", &Init6,
                                                               kCalls<DescriptorV6, true>};
}

namespace espalier::nccl {
namespace {

int Init3(void** context, int* mask) {
  return Open(context, mask, 0, "ncclProfiler_v3", ncclProfiler_v3,
              [](InitV3& init, void** other, int* wants) { return init(other, wants); });
}

int Init4(void** context, int* mask, const char* name, std::uint64_t hash, int nodes, int ranks,
          int rank, Logger* logger) {
  return Open(context, mask, ranks, "ncclProfiler_v4", ncclProfiler_v4,
              [&](InitV4& init, void** other, int* wants) {
                return init(other, wants, name, hash, nodes, ranks, rank, logger);
              });
}

int OpenFrom5(const char* symbol, const Plugin<InitV5>& ours, void** context, std::uint64_t hash,
              int* mask, const char* name, int nodes, int ranks, int rank, Logger* logger) {
  return Open(context, mask, ranks, symbol, ours, [&](InitV5& init, void** other, int* wants) {
    return init(other, hash, wants, name, nodes, ranks, rank, logger);
  });
}

int Init5(void** context, std::uint64_t hash, int* mask, const char* name, int nodes, int ranks,
          int rank, Logger* logger) {
  return OpenFrom5("ncclProfiler_v5", ncclProfiler_v5, context, hash, mask, name, nodes, ranks,
                   rank, logger);
}

int Init6(void** context, std::uint64_t hash, int* mask, const char* name, int nodes, int ranks,
          int rank, Logger* logger) {
  return OpenFrom5("ncclProfiler_v6", ncclProfiler_v6, context, hash, mask, name, nodes, ranks,
                   rank, logger);
}

}  // namespace
}  // namespace espalier::nccl
