#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace google::protobuf {
class Message;
}

namespace espalier::io {

// Parses a daemon's configuration in protobuf text format (with '#' comments) into `config`.
// Errors: kInvalidArgument "FILE:LINE:COL: what" for the first error (bad syntax, an unknown field,
// a value out of range); `config` is then partly filled.
Result<void> ParseConfig(std::string_view text, std::string_view file_name,
                         google::protobuf::Message& config);
// Reads and parses a file. Errors: those of ParseConfig; kNotFound, kPermissionDenied,
// kResourceExhausted above 1 MiB.
Result<void> ReadConfigFile(const std::string& path, google::protobuf::Message& config);

// Returns an error for a field that is well-formed but wrong: kInvalidArgument "FILE: FIELD: what".
tl::unexpected<Error> FailField(std::string_view file_name, std::string_view field,
                                std::string_view what);
// Returns the field's text, or `fallback` if that is empty.
std::string Or(const std::string& text, std::string_view fallback);

}  // namespace espalier::io
