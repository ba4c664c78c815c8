#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// SEQPACKET unix sockets: a message is one piece, with at most one file.

// Errors: kInvalidArgument for a path that is too long, kUnavailable, kAlreadyExists where somebody
// listens there. What a dead process left behind is replaced.
Result<UniqueFd> ListenOnPath(const std::string& path);
Result<UniqueFd> ConnectToPath(const std::string& path);

// Whether the whole message went. `file`: -1 for none.
bool SendMessage(int socket, const void* data, std::size_t bytes, int file);

struct ReceivedMessage {
  std::size_t bytes = 0;  // of all that came, also of what did not fit; 0: the other side has gone
  UniqueFd file;
};
// None where nothing is there yet and wait is false. Files beyond the first are closed.
std::optional<ReceivedMessage> ReceiveMessage(int socket, void* data, std::size_t bytes, bool wait);

}  // namespace espalier::runtime
