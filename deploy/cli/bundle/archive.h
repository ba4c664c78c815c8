#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"

namespace espalier::cli {

struct ArchiveFile {
  std::string name;  // within the archive's folder; at most 80 bytes
  std::string text;
};

// Returns a tar archive (POSIX.1-1988, "ustar"), compressed by gzip, with these files in the folder
// `folder`. The same input gives the same bytes. Errors: kInternal if the compression fails.
Result<std::string> MakeArchive(std::string_view folder, const std::vector<ArchiveFile>& files,
                                WallTime time);

// Returns the text without what may be a secret: access tokens ("esp_..."), passwords in addresses,
// and the values of fields whose names say that they hold a token, secret or password, in protobuf
// text format or JSON. Names of files and folders stay.
std::string WithoutSecrets(std::string_view text);

}  // namespace espalier::cli
