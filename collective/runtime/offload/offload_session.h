#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collective/runtime/communicator.h"
#include "collective/runtime/offload/mapped_file.h"
#include "collective/runtime/offload/offload_engine.h"
#include "collective/runtime/offload/offload_protocol.h"
#include "collective/transport/store.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// One program's membership of a group at the engine: a thread that answers its requests and does
// its calls, one after another. End, socket, is_over and has_ended are for the engine's thread.
class OffloadSession {
 public:
  OffloadSession(UniqueFd socket, const OffloadOptions& options);
  OffloadSession(const OffloadSession&) = delete;
  OffloadSession& operator=(const OffloadSession&) = delete;
  ~OffloadSession() { thread_.join(); }

  int socket() const { return socket_.get(); }
  // The thread soon ends, and has ended.
  bool is_over() const { return is_over_; }
  bool has_ended() const { return has_ended_; }
  void End(const std::string& why);

 private:
  void Serve();
  bool HandleRequest(bool wait);
  Result<std::uint64_t> Answer(const OffloadRequest& request, UniqueFd file);
  Result<std::uint64_t> Join(const OffloadGroup& group, UniqueFd ring);
  Result<std::uint64_t> Register(UniqueFd file);
  Result<std::uint64_t> Use(UniqueFd file);
  bool DoNextCall();
  Result<void> Do(const OffloadCall& call);
  Result<std::vector<std::size_t>> CopyCounts(const OffloadCall& call) const;
  Result<std::byte*> Find(std::uint64_t buffer, std::uint64_t offset, std::uint64_t bytes) const;
  OffloadRing& ring() const { return *reinterpret_cast<OffloadRing*>(ring_->data()); }

  UniqueFd socket_;
  OffloadOptions options_;
  std::optional<MappedFile> ring_;
  std::map<std::uint64_t, MappedFile> buffers_;
  std::uint64_t last_buffer_ = 0;
  std::size_t bytes_ = 0;  // of all buffers
  std::unique_ptr<transport::Store> store_;
  std::mutex mutex_;
  std::unique_ptr<Communicator> communicator_;  // set under the mutex, by the session's thread
  std::string why_;                             // guarded
  std::uint32_t done_ = 0;
  std::atomic<bool> is_over_ = false;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace espalier::runtime
