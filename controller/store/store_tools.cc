#include "controller/store/store_tools.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace espalier::controller {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> SystemError(const std::string& path, std::string_view what, int error) {
  ErrorCode code = ErrorCode::kInternal;
  if (error == ENOENT || error == ENOTDIR) code = ErrorCode::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) code = ErrorCode::kPermissionDenied;
  if (error == ENOSPC || error == EDQUOT) code = ErrorCode::kResourceExhausted;
  return Fail(code, fmt::format("{}: cannot {}: {}", path, what, std::strerror(error)));
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void RemoveWithWal(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) ::unlink((path + suffix).c_str());
}

Result<void> SyncPath(const std::string& path, int flags) {
  const UniqueFd file(::open(path.c_str(), flags | O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return SystemError(path, "open", errno);
  if (::fsync(file.get()) != 0) return SystemError(path, "flush to disk", errno);
  return {};
}

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Renames the file durably: the name survives a crash.
Result<void> RenameDurably(const std::string& from, const std::string& to) {
  if (Result<void> synced = SyncPath(from, 0); !synced) return synced;
  if (::rename(from.c_str(), to.c_str()) != 0) return SystemError(to, "replace the file", errno);
  return SyncPath(FolderOf(to), O_DIRECTORY);
}

Result<StoreFile> OpenExisting(const std::string& path) {
  if (!Exists(path)) return Fail(ErrorCode::kNotFound, fmt::format("{}: no such store", path));
  Result<Database> database = Database::Open(path, {.read_only = true});
  if (!database) return Propagate(database);
  if (Result<void> sound = database->CheckStructure(); !sound) return Propagate(sound);
  return StoreFile::OpenAsItIs(std::move(*database));
}

}  // namespace

Result<UniqueFd> LockStore(const std::string& path) {
  const std::string lock = path + ".lock";
  UniqueFd file(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640));
  if (file.get() < 0) {
    const int error = errno;
    auto failed = SystemError(lock, "create the file", error);
    failed.value().message += " (the store's folder must exist and be writable for this user)";
    return failed;
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError(lock, "lock", errno);
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{}: another process uses this store (stop the controller that runs "
                            "on it first)",
                            path));
  }
  return file;
}

bool IsTooLargeToCheckAtStart(const std::string& path) {
  constexpr std::uintmax_t kMost = 64 << 20;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return !error && size > kMost;
}

Result<StoreFile> OpenStore(const std::string& path) {
  Result<Database> database = Database::Open(path);
  if (!database) return Propagate(database);
  if (!IsTooLargeToCheckAtStart(path)) {
    if (Result<void> sound = database->CheckStructure(); !sound) return Propagate(sound);
  }
  return StoreFile::Open(std::move(*database));
}

Result<StoreFile::Summary> CheckStore(const std::string& path) {
  Result<StoreFile> file = OpenExisting(path);
  if (!file) return Propagate(file);
  return file->Summarise();
}

Result<StoreFile::Summary> BackUpStore(const std::string& path, const std::string& copy) {
  if (Exists(copy)) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("{}: already exists (name a new file)", copy));
  }
  Result<StoreFile> file = OpenExisting(path);
  if (!file) return Propagate(file);
  const std::string beside = copy + ".writing";
  RemoveWithWal(beside);
  Result<void> copied = file->database().CopyTo(beside);
  if (copied) copied = RenameDurably(beside, copy);
  if (!copied) {
    RemoveWithWal(beside);
    return Propagate(copied);
  }
  return CheckStore(copy);
}

Result<StoreFile::Summary> RestoreStore(const std::string& path, const std::string& backup) {
  Result<UniqueFd> lock = LockStore(path);
  if (!lock) return Propagate(lock);
  // A copy on the store's file system comes first, so that an unreadable backup changes nothing.
  const std::string beside = path + ".restoring";
  RemoveWithWal(beside);
  Result<StoreFile::Summary> summary = BackUpStore(backup, beside);
  if (!summary) return Propagate(summary);
  const std::string kept = path + ".before-restore";
  RemoveWithWal(kept);
  // A store exists at every moment; its WAL must not be applied to the backup.
  if (Exists(path) && ::link(path.c_str(), kept.c_str()) != 0) {
    return SystemError(kept, "keep the store", errno);
  }
  for (const char* suffix : {"-wal", "-shm"}) {
    if (Exists(path + suffix) && ::rename((path + suffix).c_str(), (kept + suffix).c_str()) != 0) {
      return SystemError(kept + suffix, "keep the store", errno);
    }
  }
  if (Result<void> renamed = RenameDurably(beside, path); !renamed) return Propagate(renamed);
  return summary;
}

}  // namespace espalier::controller
