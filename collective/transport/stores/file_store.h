#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "collective/transport/base/rendezvous_store.h"
#include "common/base/result.h"

namespace espalier::transport {

// A rendezvous store in an existing folder that all ranks see, with one file for each key. Each
// group needs fresh keys (see FolderMeeting). Values appear atomically. Get polls every few
// milliseconds. Errors: kUnavailable, with the file and the system's message.
class FileStore : public RendezvousStore {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Result<void> Set(const std::string& key, const std::string& value, Deadline deadline) override;
  Result<std::string> Get(const std::string& key, Deadline deadline) override;
  Result<std::string> SetOnce(const std::string& key, const std::string& value,
                              Deadline deadline) override;

 private:
  // Writes a value to a file of this thread, from which it can be put in its place at once.
  Result<std::filesystem::path> Write(const std::filesystem::path& path, const std::string& value);

  std::filesystem::path folder_;
};

}  // namespace espalier::transport
