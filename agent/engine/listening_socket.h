#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::engine {

// The one socket that systemd listens on for this process (LISTEN_FDS, sd_listen_fds(3)), so that
// programs find the engine's socket while the engine is started anew; none where it hands over
// none. The variables are removed, and the socket does not block.
// Errors: kInvalidArgument for more than one socket, or one of another type than SOCK_SEQPACKET.
Result<UniqueFd> TakeSocketOfSystemd();

}  // namespace espalier::engine
