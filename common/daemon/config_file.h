#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace google::protobuf {
class Message;
}

namespace espalier::io {

// Reads a daemon's configuration, protobuf text format (comments with '#'), into `config`.
// Errors: kInvalidArgument "FILE:LINE:COL: what" for the first thing that is wrong (a syntax
// error, an unknown field, a value out of range); the message is then half filled.
Result<void> ParseConfig(std::string_view text, std::string_view file_name,
                         google::protobuf::Message& config);
// Besides: kNotFound, kPermissionDenied, kResourceExhausted above 1 MiB.
Result<void> ReadConfigFile(const std::string& path, google::protobuf::Message& config);

// For fields that are well-formed and wrong: kInvalidArgument "FILE: FIELD: what".
tl::unexpected<Error> FailField(std::string_view file_name, std::string_view field,
                                std::string_view what);
// The field's text, or `fallback` where it has none.
std::string Or(const std::string& text, std::string_view fallback);

}  // namespace espalier::io
