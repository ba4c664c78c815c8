#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier {

// SEQPACKET unix sockets between programs of a host: a message is one piece, with at most one file.

// Programs of all users may connect: the mode of the folder is the operator's to choose. What a
// dead process left behind is replaced. Accepting does not block. Errors: kInvalidArgument for a
// path that is no socket's, kAlreadyExists where somebody answers there, kNotFound and
// kPermissionDenied for its folder, else kUnavailable.
Result<UniqueFd> ListenOnPath(const std::string& path);

// Errors: kInvalidArgument as above, kUnavailable where nobody listens.
Result<UniqueFd> ConnectToPath(const std::string& path);

// Whether somebody listens at that path; does not wait.
bool IsListenedTo(const std::string& path);

// Accepts a caller, whose socket does not block. Where this process has no descriptors left the
// caller is sent away by means of `spare`, one that is kept for that: otherwise the listener would
// stay readable, and its loop never rest. None where nobody calls, or nobody could be accepted.
std::optional<UniqueFd> AcceptCaller(int listener, UniqueFd& spare);

// Who is at the other end of a connection, as the kernel saw it when it was made (SO_PEERCRED).
struct LocalPeer {
  uid_t user = 0;
  pid_t process = 0;
};
std::optional<LocalPeer> LocalPeerOf(int socket);

// Whether the whole message went. `file`: -1 for none.
bool SendMessage(int socket, const void* data, std::size_t bytes, int file = -1);

struct ReceivedMessage {
  std::size_t bytes = 0;  // of all that came, also of what did not fit; 0: the other side has gone
  UniqueFd file;
};
// None where nothing is there yet and wait is false. Files beyond the first are closed.
std::optional<ReceivedMessage> ReceiveMessage(int socket, void* data, std::size_t bytes, bool wait);

}  // namespace espalier
