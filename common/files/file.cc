#include "common/files/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace espalier::io {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

// A file descriptor that closes itself.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool IsOpen() const { return descriptor_ >= 0; }
  int Get() const { return descriptor_; }
  // Reports errors of close, which some file systems use for a failed write.
  bool Close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

tl::unexpected<Error> SystemError(std::string_view path, std::string_view what) {
  const int error = errno;
  ErrorCode code = ErrorCode::kInternal;
  if (error == ENOENT || error == ENOTDIR) code = ErrorCode::kNotFound;
  if (error == EACCES || error == EPERM || error == EROFS) code = ErrorCode::kPermissionDenied;
  if (error == ENOSPC || error == EDQUOT || error == EMFILE) code = ErrorCode::kResourceExhausted;
  if (error == EISDIR) code = ErrorCode::kInvalidArgument;
  return Fail(code, fmt::format("{}: cannot {}: {}", path, what, std::strerror(error)));
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// `name`: what errors call the file.
Result<void> WriteAndSync(const std::string& path, const std::string& name, std::string_view text,
                          Readers readers) {
  ::unlink(path.c_str());  // a file that a crash left, possibly with another mode
  const mode_t mode = readers == Readers::kOwner ? 0600 : 0644;
  File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.IsOpen()) return SystemError(name, "create the file");
  if (!WriteAll(file.Get(), text)) return SystemError(name, "write");
  if (::fsync(file.Get()) != 0) return SystemError(name, "flush to disk");
  if (!file.Close()) return SystemError(name, "close");
  return {};
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, const FileCheck& check) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.IsOpen()) return SystemError(path, "open");
  const auto too_large = [&] {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: the file is larger than 256 MiB (use a smaller one)", path));
  };
  struct stat status {};
  if (::fstat(file.Get(), &status) != 0) return SystemError(path, "read the file's status");
  if (check) {
    if (Result<void> checked = check(status); !checked) return Propagate(checked);
  }
  if (status.st_size > static_cast<off_t>(kMaxFileBytes)) return too_large();

  std::string text;
  std::size_t used = 0;
  for (;;) {
    // Grows while reading, as pipes and files in /proc have no size.
    constexpr std::size_t kStep = std::size_t{64} << 10;
    if (text.size() - used < kStep) text.resize(std::max(used + kStep, used * 2));
    const ssize_t got = ::read(file.Get(), text.data() + used, text.size() - used);
    if (got < 0) {
      if (errno == EINTR) continue;
      return SystemError(path, "read");
    }
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
    if (used > kMaxFileBytes) return too_large();
  }
  text.resize(used);
  return text;
}

Result<void> WriteFileDurably(const std::string& given_path, std::string_view text,
                              Readers readers) {
  // Follows a symbolic link, and never replaces a device.
  std::error_code ignored;
  const std::filesystem::path resolved = std::filesystem::canonical(given_path, ignored);
  const std::string path = resolved.empty() ? given_path : resolved.string();
  if (!resolved.empty() && !std::filesystem::is_regular_file(resolved, ignored)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the path is not a regular file (name another one)", path));
  }
  const std::string beside = fmt::format("{}.{}.tmp", path, ::getpid());
  if (auto written = WriteAndSync(beside, path, text, readers); !written) {
    ::unlink(beside.c_str());
    return written;
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    auto error = SystemError(path, "replace the file");
    ::unlink(beside.c_str());
    return error;
  }
  // The new name is durable once its folder is synced.
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const File directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.IsOpen()) return SystemError(folder, "open the folder");
  if (::fsync(directory.Get()) != 0) return SystemError(folder, "flush the folder to disk");
  return {};
}

}  // namespace espalier::io
