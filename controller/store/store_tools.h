#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "controller/store/store_file.h"

namespace espalier::controller {

// Takes the store for one process, by a lock on "PATH.lock", until the descriptor is closed.
// Errors: kFailedPrecondition where another process has it; the system's.
Result<UniqueFd> LockStore(const std::string& path);

// A check reads all of the file: beyond 64 MiB the start of a controller does not wait for it.
bool IsTooLargeToCheckAtStart(const std::string& path);

// Opens the store, makes it where there is none, brings it to this program's schema and checks its
// structure, unless it is too large for that. Where `path` is the JSON file of version 0.1, or
// there is none but an "intents.json" beside it, its epoch and intents are taken over, once, and it
// is kept as "….imported". The caller has the store's lock. Errors: as LockStore, StoreFile::Open
// and ParseLegacyIntents; nothing has changed then.
Result<StoreFile> OpenStore(const std::string& path, WallTime now);

// What is in the store; nothing is changed (its WAL aside). A running controller does not mind.
// Errors: kNotFound, and whatever is wrong with the file.
Result<StoreFile::Summary> CheckStore(const std::string& path);

// Writes all that is committed to a new file `copy`; a running controller does not mind.
// Errors: as CheckStore; kAlreadyExists where there is a `copy`; the system's.
Result<StoreFile::Summary> BackUpStore(const std::string& path, const std::string& copy);

// Puts the backup in the store's place, at once; what was there is kept as "PATH.before-restore".
// Errors: whatever is wrong with the backup; kFailedPrecondition while a controller runs.
Result<StoreFile::Summary> RestoreStore(const std::string& path, const std::string& backup);

}  // namespace espalier::controller
