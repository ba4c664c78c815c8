#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::controller {

// An in-memory disk under SQLite with injectable faults: an operation fails once or from then on, a
// write is cut off in its middle, the disk is full, or the power fails. After a power failure, any
// part of the data since a file's last fsync may be present or lost, sector by sector.
//
// One connection at a time; its name, for Database::Open, is name(). Not thread-safe.
class CrashDisk {
 public:
  enum class Fault { kNone, kIoError, kTornWrite, kFull };

  CrashDisk();
  ~CrashDisk();
  CrashDisk(const CrashDisk&) = delete;
  CrashDisk& operator=(const CrashDisk&) = delete;

  const char* name() const { return name_.c_str(); }

  // The operation number `at` from now (0: the next) fails; `for_good`: so do all after it.
  void FailAt(std::uint64_t at, Fault fault, bool for_good);
  void Heal() { fault_ = Fault::kNone; }
  // Writes, truncations and fsyncs so far.
  std::uint64_t operations() const { return operations_; }
  // Whether a fault has struck since FailAt.
  bool struck() const { return struck_; }

  // A power failure: `random` decides what each file then holds. No connection may be open.
  void LosePower(std::mt19937_64& random);

 private:
  struct File {
    std::string durable;                                        // as of the last fsync
    std::string written;                                        // as programs see it
    std::vector<std::pair<std::size_t, std::size_t>> unsynced;  // offset, size of writes
    std::optional<std::size_t> smallest;                        // truncated to, since then
  };
  struct Handle;
  friend struct CrashDiskMethods;

  // Counts an operation that changes a file, and returns the fault that strikes it.
  Fault Strike();

  std::string name_;
  sqlite3_vfs vfs_{};
  std::map<std::string, std::shared_ptr<File>> files_;
  std::map<std::string, std::vector<std::vector<char>>> shared_memory_;
  std::uint64_t operations_ = 0;
  std::uint64_t fault_at_ = 0;
  Fault fault_ = Fault::kNone;
  bool for_good_ = false;
  bool struck_ = false;
};

}  // namespace espalier::controller
