#include "common/daemon/privileges.h"

#include <fmt/format.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace espalier::io {
namespace {

using CapabilitySets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

tl::unexpected<Error> SystemError(const char* what) {
  return Fail(ErrorCode::kPermissionDenied,
              fmt::format("cannot drop capabilities: {}: {}", what, std::strerror(errno)));
}

}  // namespace

Result<void> KeepOnlyCapabilities(std::span<const int> kept) {
  const auto is_kept = [&](int capability) {
    return std::find(kept.begin(), kept.end(), capability) != kept.end();
  };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return SystemError("setting no_new_privs");
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0,
        0);  // fails on old kernels, which have none
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    // Fails without CAP_SETPCAP, but then no capability in the bounding set can be gained anyway.
    if (!is_kept(capability)) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  CapabilitySets sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) return SystemError("capget");
  for (std::size_t word = 0; word < sets.size(); ++word) {
    std::uint32_t mask = 0;
    for (const int capability : kept) {
      if (static_cast<std::size_t>(capability) / 32 == word) mask |= 1U << (capability % 32);
    }
    sets[word].permitted &= mask;
    sets[word].effective = sets[word].permitted;
    sets[word].inheritable = 0;
  }
  if (syscall(SYS_capset, &header, sets.data()) != 0) return SystemError("capset");
  return {};
}

}  // namespace espalier::io
