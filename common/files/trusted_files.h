#pragma once

#include <string>

#include "common/base/result.h"

namespace espalier::io {

// Reads a file with a secret, which only its owner (root or the user of this process) may be able
// to read or change. Errors: kPermissionDenied, with the remedy, if others can; those of
// io::ReadFile.
Result<std::string> ReadSecretFile(const std::string& path);

// Reads a file of such an owner that others may read but not change, because its contents decide
// who is trusted. Errors: as above.
Result<std::string> ReadTrustedFile(const std::string& path);

}  // namespace espalier::io
