#pragma once

#include <string>

#include "collective/transport/base/transport.h"
#include "common/base/result.h"

namespace espalier::transport {

// A key-value store by which the ranks of a group find each other. Keys and values are short
// strings, and a key is set once. Errors: kUnavailable past the deadline. Thread safety: any
// thread.
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual Result<void> Set(const std::string& key, const std::string& value, Deadline deadline) = 0;
  // Waits until the key is set.
  virtual Result<std::string> Get(const std::string& key, Deadline deadline) = 0;
  // Sets a key that is not set yet, and returns the value that the key has then. Of several ranks
  // that call it for one key all get the same value, which is that of one of them.
  // Errors: also kUnsupported, if the store cannot do so.
  virtual Result<std::string> SetOnce(const std::string& key, const std::string& value,
                                      Deadline deadline);
};

inline Result<std::string> RendezvousStore::SetOnce(const std::string& key,
                                                    const std::string& /*value*/,
                                                    Deadline /*deadline*/) {
  return Fail(ErrorCode::kUnsupported,
              "this rendezvous store cannot decide between ranks (key " + key + ")");
}

// The key under which a rank that cannot join a group leaves the reason, as the others only see
// that it is missing.
inline std::string JoinFailureKey(const std::string& group) { return group + "/failed"; }

}  // namespace espalier::transport
