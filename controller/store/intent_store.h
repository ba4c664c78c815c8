#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace espalier::controller {

// What an operator has said about the fabric, and which controller this is: all that must
// survive a restart. Keys are ids of the topology, values the reason given ("" none).
struct Intents {
  std::uint64_t epoch = 0;
  std::map<std::string, std::string> failed_links;
  std::map<std::string, std::string> failed_nodes;
  std::map<std::string, std::string> drained_links;
  std::map<std::string, std::string> restored_links;  // though the topology file says otherwise
  bool operator==(const Intents&) const = default;
};

// Where intents are kept: a file, a database, another machine.
// Thread safety: one thread.
class IntentStore {
 public:
  virtual ~IntentStore() = default;
  // Empty intents where nothing was saved yet.
  virtual Result<Intents> Load() = 0;
  // When it returns success the intents survive a crash of the machine; on failure, what was
  // saved before is still there.
  virtual Result<void> Save(const Intents& intents) = 0;
};

// One small JSON file, replaced as a whole and fsynced; fine for the tens of intents of an
// operator. Errors of Load name the file, line and column.
std::unique_ptr<IntentStore> MakeFileIntentStore(std::string path);

}  // namespace espalier::controller
