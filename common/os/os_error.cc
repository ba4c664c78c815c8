#include "common/os/os_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace espalier {

tl::unexpected<Error> FailErrno(const std::string& what, int error) {
  const bool denied = error == EPERM || error == EACCES;
  return Fail(denied ? ErrorCode::kPermissionDenied : ErrorCode::kInternal,
              fmt::format("{}: {}", what, std::generic_category().message(error)));
}

}  // namespace espalier
