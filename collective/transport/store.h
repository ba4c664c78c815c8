#pragma once

#include <filesystem>
#include <string>

#include "collective/transport/transport.h"
#include "common/base/result.h"

namespace espalier::transport {

// Where the ranks of a group find one another: small texts under names that are set once.
// Thread safety: any thread.
class Store {
 public:
  virtual ~Store() = default;
  virtual Result<void> Set(const std::string& key, const std::string& value) = 0;
  // Waits until the key is set. kUnavailable past the deadline.
  virtual Result<std::string> Get(const std::string& key, Deadline deadline) = 0;
};

// A folder that all ranks see, one file a key; each group needs a fresh one. A value appears whole
// or not at all. Get looks every few milliseconds.
// Errors: kUnavailable, with the file and the system's reason.
class FileStore : public Store {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Result<void> Set(const std::string& key, const std::string& value) override;
  Result<std::string> Get(const std::string& key, Deadline deadline) override;

 private:
  std::filesystem::path folder_;
};

}  // namespace espalier::transport
