#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "controller/store/store_file.h"

namespace espalier::controller {

// Locks the store for this process with a lock on "PATH.lock", until the descriptor is closed.
// Errors: kFailedPrecondition if another process holds it; the system's.
Result<UniqueFd> LockStore(const std::string& path);

// A check reads the whole file, so the start of a controller does not wait for it beyond 64 MiB.
bool IsTooLargeToCheckAtStart(const std::string& path);

// Opens or creates the store, migrates it to this program's schema, and checks its structure unless
// it is too large for that. The caller holds the store's lock. Errors: as LockStore and
// StoreFile::Open; nothing has changed then.
Result<StoreFile> OpenStore(const std::string& path);

// Checks the store and returns its summary without changing it (except its WAL). Safe while a
// controller runs. Errors: kNotFound; those of the file.
Result<StoreFile::Summary> CheckStore(const std::string& path);

// Copies all committed data to a new file `copy`. Safe while a controller runs. Errors: as
// CheckStore; kAlreadyExists if `copy` exists; the system's.
Result<StoreFile::Summary> BackUpStore(const std::string& path, const std::string& copy);

// Replaces the store by the backup atomically, and keeps the earlier store as
// "PATH.before-restore". Errors: those of the backup; kFailedPrecondition while a controller runs.
Result<StoreFile::Summary> RestoreStore(const std::string& path, const std::string& backup);

}  // namespace espalier::controller
