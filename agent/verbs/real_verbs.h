#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include "agent/verbs/engine_interface.h"

namespace espalier::shim {

// The functions of one copy of libibverbs.
struct RealVerbs : espalier_real_verbs {
  // True if the kernel's driver of the device has this name; by default found in /sys.
  bool (*is_of_driver)(const ibv_context&, const char* driver) = nullptr;
};

RealVerbs MakeRealVerbs(const espalier_real_verbs& functions);

// Returns the address with this index of a port, if it is one of RoCEv2.
std::optional<ibv_gid> QueryRoceV2(const RealVerbs& real, ibv_context& context, std::uint8_t port,
                                   std::uint8_t index);

}  // namespace espalier::shim
