#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace google::protobuf {
class Message;
}

namespace espalier::io {

// Configuration files of daemons: protobuf text format (with '#' comments), by a schema whose
// fields have a row of option.proto each. O(size of the file). Thread safety: functions without
// state.

// Parses a configuration into `config`, checks its values by their rows, and fills in the defaults
// of fields that the file leaves out.
// Errors: kInvalidArgument "FILE:LINE:COL: what" for the first error (bad syntax, an unknown field,
// a value that its row does not allow), "FILE: FIELD is missing (...)"; `config` is then partly
// filled.
Result<void> ParseConfig(std::string_view text, std::string_view file_name,
                         google::protobuf::Message& config);
// Reads and parses a file. Errors: those of ParseConfig; kNotFound, kPermissionDenied,
// kResourceExhausted above 1 MiB.
Result<void> ReadConfigFile(const std::string& path, google::protobuf::Message& config);

// An option in force: its name, its values as a file writes them, and whether a reload applies it.
struct OptionInForce {
  std::string name;
  std::vector<std::string> values;
  bool can_reload = false;
};
// All options of a parsed configuration, in the schema's order.
std::vector<OptionInForce> OptionsInForce(const google::protobuf::Message& config);
// One "name: value" a line, for each value.
std::string PrintOptions(const std::vector<OptionInForce>& options);
// The names of the options that differ and that a reload does not apply. Both are of one schema.
std::vector<std::string> NeedRestart(const std::vector<OptionInForce>& running,
                                     const std::vector<OptionInForce>& read);

// Returns an error for a field that is well-formed but wrong: kInvalidArgument "FILE: FIELD: what".
tl::unexpected<Error> FailField(std::string_view file_name, std::string_view field,
                                std::string_view what);

}  // namespace espalier::io
