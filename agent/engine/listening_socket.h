#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::engine {

// Takes the socket on which systemd listens for this process (LISTEN_FDS, sd_listen_fds(3)), so
// that programs find the socket also while the offload service restarts. None if systemd passes no
// socket. Removes the variables, and makes the socket non-blocking.
// Errors: kInvalidArgument for more than one socket, or one of another type than SOCK_SEQPACKET.
Result<UniqueFd> TakeSocketOfSystemd();

}  // namespace espalier::engine
