#include "tests/controller/store/crash_disk.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::size_t kSector = 512;

}  // namespace

// The part of a file that lies in the memory that SQLite provides for it.
struct CrashDisk::Handle {
  sqlite3_file base;  // first: SQLite's own part
  CrashDisk* disk;
  std::shared_ptr<File>* file;
  std::string* path;
};

struct CrashDiskMethods {
  using Handle = CrashDisk::Handle;
  using File = CrashDisk::File;
  using Fault = CrashDisk::Fault;

  static Handle& Of(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }
  static CrashDisk& DiskOf(sqlite3_vfs* vfs) { return *static_cast<CrashDisk*>(vfs->pAppData); }

  static int Close(sqlite3_file* file) {
    delete std::exchange(Of(file).file, nullptr);
    delete std::exchange(Of(file).path, nullptr);
    return SQLITE_OK;
  }

  static int Read(sqlite3_file* file, void* data, int size, sqlite3_int64 offset) {
    const std::string& bytes = (*Of(file).file)->written;
    const auto start = std::min(static_cast<std::size_t>(offset), bytes.size());
    const auto count = std::min(static_cast<std::size_t>(size), bytes.size() - start);
    std::memcpy(data, bytes.data() + start, count);
    std::memset(static_cast<char*>(data) + count, 0, static_cast<std::size_t>(size) - count);
    return count == static_cast<std::size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
  }

  static int Write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
    const Fault fault = Of(file).disk->Strike();
    if (fault == Fault::kFull) return SQLITE_FULL;
    if (fault == Fault::kIoError) return SQLITE_IOERR_WRITE;
    const auto start = static_cast<std::size_t>(offset);
    auto count = static_cast<std::size_t>(size);
    if (fault == Fault::kTornWrite) count /= 2;
    File& target = **Of(file).file;
    target.written.resize(std::max(target.written.size(), start + count));
    std::memcpy(target.written.data() + start, data, count);
    target.unsynced.emplace_back(start, count);
    return fault == Fault::kTornWrite ? SQLITE_IOERR_WRITE : SQLITE_OK;
  }

  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    if (Of(file).disk->Strike() != Fault::kNone) return SQLITE_IOERR_TRUNCATE;
    File& target = **Of(file).file;
    target.written.resize(static_cast<std::size_t>(size));
    target.smallest = std::min(target.smallest.value_or(SIZE_MAX), target.written.size());
    return SQLITE_OK;
  }

  static int Sync(sqlite3_file* file, int) {
    if (Of(file).disk->Strike() != Fault::kNone) return SQLITE_IOERR_FSYNC;
    File& target = **Of(file).file;
    target.durable = target.written;
    target.unsynced.clear();
    target.smallest.reset();
    return SQLITE_OK;
  }

  static int FileSize(sqlite3_file* file, sqlite3_int64* size) {
    *size = static_cast<sqlite3_int64>((*Of(file).file)->written.size());
    return SQLITE_OK;
  }

  static int Lock(sqlite3_file*, int) { return SQLITE_OK; }
  static int CheckReservedLock(sqlite3_file*, int* reserved) {
    *reserved = 0;
    return SQLITE_OK;
  }
  static int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int SectorSize(sqlite3_file*) { return static_cast<int>(kSector); }
  static int DeviceCharacteristics(sqlite3_file*) { return 0; }

  static int ShmMap(sqlite3_file* file, int region, int size, int extend, void volatile** memory) {
    auto& regions = Of(file).disk->shared_memory_[*Of(file).path];
    const auto wanted = static_cast<std::size_t>(region) + 1;
    *memory = nullptr;
    if (regions.size() < wanted && extend == 0) return SQLITE_OK;
    while (regions.size() < wanted) regions.emplace_back(static_cast<std::size_t>(size));
    *memory = regions[wanted - 1].data();
    return SQLITE_OK;
  }
  static int ShmLock(sqlite3_file*, int, int, int) { return SQLITE_OK; }
  static void ShmBarrier(sqlite3_file*) { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static int ShmUnmap(sqlite3_file* file, int) {
    Of(file).disk->shared_memory_.erase(*Of(file).path);
    return SQLITE_OK;
  }

  static int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
    static const sqlite3_io_methods methods = {.iVersion = 2,
                                               .xClose = Close,
                                               .xRead = Read,
                                               .xWrite = Write,
                                               .xTruncate = Truncate,
                                               .xSync = Sync,
                                               .xFileSize = FileSize,
                                               .xLock = Lock,
                                               .xUnlock = Lock,
                                               .xCheckReservedLock = CheckReservedLock,
                                               .xFileControl = FileControl,
                                               .xSectorSize = SectorSize,
                                               .xDeviceCharacteristics = DeviceCharacteristics,
                                               .xShmMap = ShmMap,
                                               .xShmLock = ShmLock,
                                               .xShmBarrier = ShmBarrier,
                                               .xShmUnmap = ShmUnmap};
    CrashDisk& disk = DiskOf(vfs);
    const std::string name = path != nullptr ? path : "temporary";
    Of(file).base.pMethods = nullptr;
    auto found = disk.files_.find(name);
    if (found == disk.files_.end()) {
      if ((flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
      found = disk.files_.emplace(name, std::make_shared<File>()).first;
    }
    Of(file).base.pMethods = &methods;
    Of(file).disk = &disk;
    Of(file).file = new std::shared_ptr<File>(found->second);
    Of(file).path = new std::string(name);
    if (out != nullptr) *out = flags;
    return SQLITE_OK;
  }

  static int Delete(sqlite3_vfs* vfs, const char* path, int) {
    if (DiskOf(vfs).Strike() != Fault::kNone) return SQLITE_IOERR_DELETE;
    DiskOf(vfs).files_.erase(path);
    return SQLITE_OK;
  }

  static int Access(sqlite3_vfs* vfs, const char* path, int, int* result) {
    const auto found = DiskOf(vfs).files_.find(path);
    *result = found != DiskOf(vfs).files_.end() ? 1 : 0;
    return SQLITE_OK;
  }

  static int FullPathname(sqlite3_vfs*, const char* path, int size, char* out) {
    sqlite3_snprintf(size, out, "%s", path);
    return SQLITE_OK;
  }
};

CrashDisk::CrashDisk() {
  static std::atomic<int> number = 0;
  name_ = "crash-disk-" + std::to_string(++number);
  // Randomness and time are those of the machine.
  vfs_ = *sqlite3_vfs_find(nullptr);
  vfs_.iVersion = 2;
  vfs_.szOsFile = sizeof(Handle);
  vfs_.zName = name_.c_str();
  vfs_.pAppData = this;
  vfs_.xOpen = CrashDiskMethods::Open;
  vfs_.xDelete = CrashDiskMethods::Delete;
  vfs_.xAccess = CrashDiskMethods::Access;
  vfs_.xFullPathname = CrashDiskMethods::FullPathname;
  sqlite3_vfs_register(&vfs_, 0);
}

CrashDisk::~CrashDisk() { sqlite3_vfs_unregister(&vfs_); }

void CrashDisk::FailAt(std::uint64_t at, Fault fault, bool for_good) {
  fault_at_ = operations_ + at;
  fault_ = fault;
  for_good_ = for_good;
  struck_ = false;
}

CrashDisk::Fault CrashDisk::Strike() {
  const std::uint64_t operation = operations_++;
  if (fault_ == Fault::kNone) return Fault::kNone;
  if (operation != fault_at_ && !(for_good_ && operation > fault_at_)) return Fault::kNone;
  struck_ = true;
  return fault_;
}

void CrashDisk::LosePower(std::mt19937_64& random) {
  shared_memory_.clear();
  for (auto& [path, file] : files_) {
    std::string found = file->durable;
    if (file->smallest && random() % 2 == 0) found.resize(std::min(found.size(), *file->smallest));
    for (const auto& [offset, size] : file->unsynced) {
      for (std::size_t at = offset; at < offset + size;) {
        const std::size_t end = std::min(offset + size, (at / kSector + 1) * kSector);
        const std::size_t there = std::min(end, file->written.size());
        if (random() % 2 == 0 && at < there) {
          found.resize(std::max(found.size(), there));
          std::copy(file->written.begin() + static_cast<std::ptrdiff_t>(at),
                    file->written.begin() + static_cast<std::ptrdiff_t>(there),
                    found.begin() + static_cast<std::ptrdiff_t>(at));
        }
        at = end;
      }
    }
    file->written = file->durable = std::move(found);
    file->unsynced.clear();
    file->smallest.reset();
  }
}

}  // namespace espalier::controller
