#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace espalier {

enum class ErrorCode {
  kInvalidArgument,     // the input is wrong whatever the state: malformed, out of range
  kNotFound,            // it names something that does not exist
  kAlreadyExists,       // it makes something that exists, or asks for a state already reached
  kFailedPrecondition,  // right in itself, but not in the present state
  kResourceExhausted,   // a limit of ours or of the machine is reached
  kUnavailable,         // the other side does not answer (now)
  kPermissionDenied,
  kUnsupported,  // this machine, kernel or device cannot do it
  kInternal,
};

// What went wrong, for a person: the message names the thing, the cause and, where there is one,
// the remedy. File, line and column come first ("FILE:LINE:COL: ...") where the input has them.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// The error of another result, passed on.
template <typename T>
tl::unexpected<Error> Propagate(Result<T>& result) {
  return tl::unexpected<Error>(std::move(result.error()));
}

// "invalid argument", "not found", ...
std::string_view ErrorCodeName(ErrorCode code);

}  // namespace espalier
