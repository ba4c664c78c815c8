#pragma once

#include <string>

#include "common/base/result.h"

namespace espalier {

// Returns the error of a failed system call: "what: message of errno", with kPermissionDenied for
// EPERM and EACCES, else kInternal.
tl::unexpected<Error> FailErrno(const std::string& what, int error);

}  // namespace espalier
