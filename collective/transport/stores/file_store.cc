#include "collective/transport/stores/file_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

namespace espalier::transport {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLongestPause{10};

std::string FileName(const std::string& key) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

}  // namespace

Result<fs::path> FileStore::Write(const fs::path& path, const std::string& value) {
  const fs::path fresh = fmt::format("{}.{}.{}", path.string(), ::getpid(), ::gettid());
  std::ofstream stream(fresh, std::ios::binary);
  stream << value;
  stream.close();
  if (stream) return fresh;
  return Fail(ErrorCode::kUnavailable,
              fmt::format("{}: cannot write: {}", fresh.string(), std::strerror(errno)));
}

Result<void> FileStore::Set(const std::string& key, const std::string& value,
                            Deadline /*deadline*/) {
  std::error_code code;
  const fs::path path = folder_ / FileName(key);
  auto fresh = Write(path, value);
  if (!fresh) return Propagate(fresh);
  fs::rename(*fresh, path, code);
  if (code) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", path.string(), code.message()));
  }
  return {};
}

// A hard link is made for one of several ranks only, also on network file systems.
Result<std::string> FileStore::SetOnce(const std::string& key, const std::string& value,
                                       Deadline deadline) {
  std::error_code linked;
  std::error_code removed;
  const fs::path path = folder_ / FileName(key);
  auto fresh = Write(path, value);
  if (!fresh) return Propagate(fresh);
  fs::create_hard_link(*fresh, path, linked);
  fs::remove(*fresh, removed);
  if (!linked || linked == std::errc::file_exists) return Get(key, deadline);
  return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", path.string(), linked.message()));
}

Result<std::string> FileStore::Get(const std::string& key, Deadline deadline) {
  const fs::path path = folder_ / FileName(key);
  milliseconds pause{1};
  while (true) {
    std::ifstream stream(path, std::ios::binary);
    if (stream) return std::string(std::istreambuf_iterator<char>(stream), {});
    if (steady_clock::now() >= deadline) {
      return Fail(ErrorCode::kUnavailable, fmt::format("{} did not appear in time", path.string()));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace espalier::transport
