#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier {

// SEQPACKET unix sockets between programs of a host. A message arrives whole, with at most one
// file.

// Listens on a path. Programs of all users may connect; operators restrict access by the mode of
// the folder. The socket of a dead process is replaced. Accepting does not block. Errors:
// kInvalidArgument if the path is invalid or not a socket, kAlreadyExists if another process
// answers there, kNotFound and kPermissionDenied for its folder, else kUnavailable.
Result<UniqueFd> ListenOnPath(const std::string& path);

// Errors: kInvalidArgument as above, kUnavailable if no process listens, or if the one that does
// accepts nobody for 5 s.
Result<UniqueFd> ConnectToPath(const std::string& path);

// True if a process listens on the path; does not wait.
bool IsListenedTo(const std::string& path);

// Accepts a caller with a non-blocking socket; none if there is no caller or accepting fails. If
// this process has no descriptors left, `spare` is used to accept and close the connection:
// otherwise the listener would stay readable and its loop would spin.
std::optional<UniqueFd> AcceptCaller(int listener, UniqueFd& spare);

// Sends a message; returns whether all of it was sent. `file`: -1 for none.
bool SendMessage(int socket, const void* data, std::size_t bytes, int file = -1);

struct ReceivedMessage {
  std::size_t bytes =
      0;  // size of the whole message, even if it did not fit; 0: the other side is gone
  UniqueFd file;
};
// Receives a message; none if there is none yet and wait is false. Files beyond the first are
// closed.
std::optional<ReceivedMessage> ReceiveMessage(int socket, void* data, std::size_t bytes, bool wait);

}  // namespace espalier
