#include "collective/runtime/offload/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

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

// Allocates all pages of a mapping.
bool Populate(const Mapping& mapping) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(mapping.address(), mapping.bytes(), MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  // Kernels before 5.14.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at < mapping.bytes(); at += page) {
    *static_cast<volatile std::byte*>(mapping.address() + at) = std::byte{0};
  }
  return true;
}

bool IsOnTmpfs(int file) {
  struct statfs system = {};
  return ::fstatfs(file, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

}  // namespace

Result<MappedFile> MappedFile::Make(std::size_t bytes) {
  UniqueFd file(::memfd_create("espalier-offload", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return Fail(ErrorCode::kUnavailable, fmt::format("cannot create {} bytes of shared memory: {}",
                                                     bytes, std::strerror(errno)));
  }
  auto mapping = Map(file.get(), bytes);
  if (!mapping) return Propagate(mapping);
  if (!Populate(*mapping)) {
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("cannot allocate {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  }
  return MappedFile(std::move(file), std::move(*mapping));
}

Result<MappedFile> MappedFile::Adopt(UniqueFd file, std::size_t most_bytes) {
  if (!file) return Refuse("is missing");
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0) return Refuse("is not a memory file (use memfd_create)");
  if (!IsOnTmpfs(file.get()))
    return Refuse("has huge pages (use memfd_create without MFD_HUGETLB)");
  if ((seals & F_SEAL_SHRINK) == 0) return Refuse("is not sealed against shrinking");
  if ((seals & F_SEAL_GROW) == 0) return Refuse("is not sealed against growing");
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0 || status.st_size <= 0 ||
      static_cast<std::uint64_t>(status.st_size) > most_bytes) {
    return Refuse(fmt::format("has {} bytes (1 to {} are accepted)", status.st_size, most_bytes));
  }
  auto mapping = Map(file.get(), static_cast<std::size_t>(status.st_size));
  if (!mapping) return Refuse("cannot be written");
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return Refuse("cannot be sealed further (leave out F_SEAL_SEAL)");
  }
  if (::lseek(file.get(), 0, SEEK_HOLE) != status.st_size) {
    return Refuse("has pages that were never written (write to each page before it is shared)");
  }
  return MappedFile(UniqueFd(), std::move(*mapping));
}

}  // namespace espalier::runtime
