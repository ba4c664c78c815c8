#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/wall_time.h"
#include "common/bus/curve.h"

namespace espalier::identity {

// A key pair and whose it is: an agent's name, or "controller" (docs/formats.md).
struct KeyFile {
  std::string name;
  io::CurveKeys keys;
  WallTime made;
};
std::string FormatKeyFile(const KeyFile& file);
Result<KeyFile> ParseKeyFile(std::string_view text, std::string_view file_name);
// Errors: kPermissionDenied where others can read it; kInvalidArgument "FILE:LINE:COL: what", also
// where the keys are no pair; kNotFound with the command that makes one.
Result<KeyFile> ReadKeyFile(const std::string& path);

// The public keys of the controller that agents are to trust: one, or two while it rotates.
std::string FormatControllerKeys(const std::vector<std::string>& keys);
Result<std::vector<std::string>> ParseControllerKeys(std::string_view text,
                                                     std::string_view file_name);
Result<std::vector<std::string>> ReadControllerKeys(const std::string& path);

}  // namespace espalier::identity
