#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace espalier {

enum class ErrorCode {
  kInvalidArgument,     // the input is wrong in any state: malformed, out of range
  kNotFound,            // the named thing does not exist
  kAlreadyExists,       // the thing to create exists, or the requested state is reached already
  kFailedPrecondition,  // the request is valid, but not in the current state
  kResourceExhausted,   // a limit of this program or of the machine is reached
  kUnavailable,         // the other side does not answer at the moment
  kPermissionDenied,
  kUnsupported,  // this machine, kernel or device does not support it
  kInternal,
};

// An error with a message for people, which names the thing, the cause and the remedy, if there is
// one. It begins with file, line and column ("FILE:LINE:COL: ...") if the input has them.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// Returns the error of another result.
template <typename T>
tl::unexpected<Error> Propagate(Result<T>& result) {
  return tl::unexpected<Error>(std::move(result.error()));
}

// "invalid argument", "not found", ...
std::string_view ErrorCodeName(ErrorCode code);

}  // namespace espalier
