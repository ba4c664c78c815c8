#include "collective/runtime/offload/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace espalier::runtime {
namespace {

Result<Mapping> Map(int file, std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (address != MAP_FAILED) return Mapping(static_cast<std::byte*>(address), bytes);
  return Fail(ErrorCode::kUnavailable,
              fmt::format("cannot map {} bytes of shared memory: {}", bytes, std::strerror(errno)));
}

tl::unexpected<Error> Refuse(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "the shared memory " + what);
}

}  // namespace

Result<MappedFile> MappedFile::Make(std::size_t bytes) {
  UniqueFd file(::memfd_create("espalier-offload", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Fail(ErrorCode::kUnavailable, fmt::format("cannot make {} bytes of shared memory: {}",
                                                     bytes, std::strerror(errno)));
  }
  auto mapping = Map(file.get(), bytes);
  if (!mapping) return Propagate(mapping);
  return MappedFile(std::move(file), std::move(*mapping));
}

Result<MappedFile> MappedFile::Adopt(UniqueFd file, std::size_t most_bytes) {
  if (!file) return Refuse("is missing");
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0) return Refuse("is no memory file");
  if ((seals & F_SEAL_SHRINK) == 0) return Refuse("is not sealed against shrinking");
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0 || status.st_size <= 0 ||
      static_cast<std::uint64_t>(status.st_size) > most_bytes) {
    return Refuse(fmt::format("has {} bytes (1 to {} are taken)", status.st_size, most_bytes));
  }
  auto mapping = Map(file.get(), static_cast<std::size_t>(status.st_size));
  if (!mapping) return Refuse("cannot be written");
  if (::fallocate(file.get(), 0, 0, status.st_size) != 0) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no memory for {} bytes that are shared: {}", status.st_size,
                            std::strerror(errno)));
  }
  return MappedFile(std::move(file), std::move(*mapping));
}

}  // namespace espalier::runtime
