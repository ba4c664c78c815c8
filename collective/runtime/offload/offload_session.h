#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collective/runtime/group/communicator.h"
#include "collective/runtime/offload/job_directory.h"
#include "collective/runtime/offload/mapped_file.h"
#include "collective/runtime/offload/offload_protocol.h"
#include "collective/runtime/offload/offload_service.h"
#include "collective/runtime/offload/offload_user.h"
#include "collective/transport/base/rendezvous_store.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// The reply that reports an error to a program.
OffloadReply RefusalOf(const Error& error);

// One program's membership of a group at the offload service: a thread that answers its requests
// and runs its calls, one after another. Invalid data and exceeded budgets affect this session
// only.
// Thread safety: End and the accessors are for the service's thread. The constructor throws
// std::system_error if it cannot start a thread.
class OffloadSession {
 public:
  // The options must outlive it.
  OffloadSession(UniqueFd socket, const JobProgram& program, std::shared_ptr<OffloadUser> user,
                 const OffloadOptions& options);
  OffloadSession(const OffloadSession&) = delete;
  OffloadSession& operator=(const OffloadSession&) = delete;
  ~OffloadSession() { thread_.join(); }

  int socket() const { return socket_.get(); }
  BudgetOwner user() const { return user_->number; }
  bool has_joined() const { return has_joined_; }
  // Whether the session's thread will end soon, and whether it has ended.
  bool is_over() const { return is_over_; }
  bool has_ended() const { return has_ended_; }
  void End(const std::string& why);

 private:
  // A memory file of the program, and its charge to the budget.
  struct Buffer {
    Buffer(MappedFile mapped, BudgetedMemory& shared)
        : file(std::move(mapped)), charge(shared, file.size()) {}
    MappedFile file;
    MemoryCharge charge;
  };

  void Work();
  void Serve();
  bool HandleRequest(bool wait);
  // Waits for a request to join, no longer than programs may take for it. Returns whether there is
  // one.
  bool WaitForRequest() const;
  Result<std::uint64_t> AnswerWithinMemory(const OffloadRequest& request, UniqueFd file);
  Result<std::uint64_t> Answer(const OffloadRequest& request, UniqueFd file);
  Result<std::uint64_t> JoinJob(const OffloadRequest& request, UniqueFd ring);
  Result<std::uint64_t> JoinNamed(const OffloadRequest& request, UniqueFd ring);
  Result<std::uint64_t> Join(int rank, GroupJoinInfo place, UniqueFd ring);
  Result<std::uint64_t> Register(UniqueFd file);
  Result<std::uint64_t> Use(UniqueFd file);
  bool DoNextCall();
  Result<void> Do(const OffloadCall& call);
  Result<std::vector<std::size_t>> CopyCounts(const OffloadCall& call) const;
  Result<std::byte*> Find(std::uint64_t buffer, std::uint64_t offset, std::uint64_t bytes) const;
  OffloadRing& ring() const { return *reinterpret_cast<OffloadRing*>(ring_->data()); }

  UniqueFd socket_;
  const JobProgram program_;
  const std::shared_ptr<OffloadUser> user_;
  const OffloadOptions& options_;
  BudgetedMemory memory_;
  BudgetedMemory shared_;
  std::optional<MappedFile> ring_;
  std::map<std::uint64_t, Buffer> buffers_;
  std::uint64_t last_buffer_ = 0;
  // The charges for the plans in force, by collective.
  std::map<program::CollectiveKind, std::unique_ptr<MemoryCharge>> plans_;
  std::unique_ptr<PlanDirectory> directory_;  // of a job's rank
  std::unique_ptr<transport::RendezvousStore> store_;
  std::mutex mutex_;
  std::unique_ptr<Communicator> communicator_;  // set under the mutex by the session's thread
  std::string why_;                             // guarded
  std::uint32_t done_ = 0;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::atomic<bool> has_joined_ = false;
  std::atomic<bool> is_over_ = false;
  std::atomic<bool> has_ended_ = false;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace espalier::runtime
