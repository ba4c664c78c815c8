#pragma once

#include <string>

#include "common/base/result.h"

namespace espalier::identity {

// A file that holds a secret: nobody but its owner, who is root or this process's user, may read or
// change it.
// Errors: kPermissionDenied, with the remedy, where others can; those of io::ReadFile.
Result<std::string> ReadSecretFile(const std::string& path);

// A file of such an owner that others may read, but not change: who writes it decides who is
// trusted. Errors: as above.
Result<std::string> ReadTrustedFile(const std::string& path);

}  // namespace espalier::identity
