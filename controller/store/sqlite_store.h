#pragma once

#include <memory>
#include <string>

#include "common/base/event_loop.h"
#include "common/base/wall_time.h"
#include "controller/store/store.h"
#include "controller/store/store_limits.h"

namespace espalier::controller {

// A store in one SQLite file (docs/formats.md), on a thread of its own: the loop never waits for
// the disk. A file that does not exist is made; that of version 0.1 is imported (store_tools.h).
// The store belongs to this process until it is destroyed, which waits for all that was asked.
// What is beyond the limits is deleted a little at a time, after changes and between them. A file
// of more than 64 MiB is checked for damage after the start, on another thread, which says what it
// finds in the log.
// The loop must outlive it.
// Errors: what is wrong with the file, each with its remedy; nothing was changed then.
Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path, EventLoop& loop,
                                               const WallClock& clock, StoreLimits limits = {});

}  // namespace espalier::controller
