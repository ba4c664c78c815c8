#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace espalier::io {

// Reads a whole file. Errors: kNotFound, kPermissionDenied, kResourceExhausted above 256 MiB.
// `check` is called with the status of the opened file before it is read; its error is returned.
using FileCheck = std::function<Result<void>(const struct stat& status)>;
Result<std::string> ReadFile(const std::string& path, const FileCheck& check = {});
// Replaces a file (or the target of a symbolic link) atomically and durably: writes a new file in
// its folder, syncs it, renames it and syncs the folder. Errors: kInvalidArgument if the path is
// not a regular file, kNotFound, kPermissionDenied, kResourceExhausted for a full disk.
enum class Readers { kAll, kOwner };
Result<void> WriteFileDurably(const std::string& path, std::string_view text,
                              Readers readers = Readers::kAll);

}  // namespace espalier::io
