#pragma once

#include <memory>
#include <string>

#include "common/base/time/event_loop.h"
#include "common/base/time/wall_time.h"
#include "controller/store/store.h"
#include "controller/store/store_limits.h"

namespace espalier::controller {

// Opens a store in one SQLite file (docs/formats.md). It works on a thread of its own, so that the
// loop never waits for the disk. A missing file is created. The store belongs to this process until
// it is destroyed, which waits for all pending calls. Data beyond the limits is deleted in small
// steps, after and between changes. A file of more than 64 MiB is checked for damage after the
// start, on another thread, which logs the result. The loop must outlive it. Errors: those of the
// file, each with its remedy; nothing has changed then.
Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path, EventLoop& loop,
                                               const WallClock& clock, StoreLimits limits = {});

// Whether the folder of a store's file exists and can be written, so that `--check` finds what a
// start would. Errors: kNotFound or kPermissionDenied, with the remedy.
Result<void> CheckStoreFolder(const std::string& path);

}  // namespace espalier::controller
