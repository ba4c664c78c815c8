#include "common/base/result.h"

#include "common/base/enum_names.h"

namespace espalier {

std::string_view ErrorCodeName(ErrorCode code) {
  static constexpr EnumNames<ErrorCode> kErrorCodeNames(
      {
          {ErrorCode::kInvalidArgument, "invalid argument"},
          {ErrorCode::kNotFound, "not found"},
          {ErrorCode::kAlreadyExists, "already exists"},
          {ErrorCode::kFailedPrecondition, "failed precondition"},
          {ErrorCode::kResourceExhausted, "resource exhausted"},
          {ErrorCode::kUnavailable, "unavailable"},
          {ErrorCode::kPermissionDenied, "permission denied"},
          {ErrorCode::kUnsupported, "unsupported"},
          {ErrorCode::kInternal, "internal error"},
      },
      "unknown error");
  return kErrorCodeNames.NameOf(code);
}

}  // namespace espalier
