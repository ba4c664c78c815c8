#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "common/bus/curve.h"

namespace espalier::identity {

// A key pair and its owner: an agent's name, or "controller" (docs/formats.md).
struct KeyFile {
  std::string name;
  io::CurveKeys keys;
  WallTime made;
};
std::string FormatKeyFile(const KeyFile& file);
Result<KeyFile> ParseKeyFile(std::string_view text, std::string_view file_name);
// Errors: kPermissionDenied if other users can read the file; kInvalidArgument "FILE:LINE:COL:
// what", also if the keys are not a pair; kNotFound, with the command that creates the file.
Result<KeyFile> ReadKeyFile(const std::string& path);

// Reads the public keys of the controller that agents trust: one, or two during a rotation.
std::string FormatControllerKeys(const std::vector<std::string>& keys);
Result<std::vector<std::string>> ParseControllerKeys(std::string_view text,
                                                     std::string_view file_name);
Result<std::vector<std::string>> ReadControllerKeys(const std::string& path);

}  // namespace espalier::identity
