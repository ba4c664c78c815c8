#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "collective/runtime/calls/group.h"
#include "collective/runtime/group/communicator.h"
#include "collective/runtime/offload/job_directory.h"
#include "collective/runtime/offload/mapped_file.h"
#include "collective/runtime/offload/offload_protocol.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// A rank whose collectives are run by the offload service of its host, in memory that both share.
// Buffers from Allocate are used in place; others are copied through a staging buffer, which grows
// to the size of the largest call. The calling thread sleeps meanwhile.
//
// Errors beyond those of Communicator: kUnavailable if the offload service is missing or stops
// (which ends the group; a new group may work when the service is back); kUnsupported for a service
// of another version; kPermissionDenied for an address where it may not join groups;
// kResourceExhausted beyond its limits.
// Thread safety: as Communicator.
class OffloadedGroup : public Group {
 public:
  // Lets the offload service at that socket path join the job's group for this rank, with what the
  // agent tells it. `size`: the number of ranks in the rank's plan.
  static Result<std::unique_ptr<OffloadedGroup>> JoinJob(const std::string& engine,
                                                         const JobRank& rank, int size,
                                                         std::chrono::milliseconds timeout,
                                                         transport::Deadline join_by);
  // Joins a group without a job, over TCP or verbs, if the service's configuration allows its
  // addresses. The service opens the store, "tcp://ADDRESS:PORT".
  static Result<std::unique_ptr<OffloadedGroup>> Join(const std::string& engine,
                                                      const std::string& store,
                                                      const std::string& name, int rank, int size,
                                                      const CommunicatorOptions& options);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<void> Run(program::CollectiveKind kind, const void* input, void* output, std::size_t count,
                   reduce::DataType type, reduce::ReduceOp op, int root) override;
  Result<void> RunUnequal(program::CollectiveKind kind, const void* input, void* output,
                          std::span<const std::size_t> counts, reduce::DataType type,
                          reduce::ReduceOp op) override;
  Result<void> Use(CollectivePlan plan) override;
  Result<void*> Allocate(std::size_t bytes) override;
  Result<void> Release(void* memory) override;
  void Interrupt(const Error& cause) override;

 private:
  struct Buffer {
    MappedFile file;
    std::uint64_t number = 0;
  };
  struct Place {
    std::uint64_t buffer = 0;
    std::uint64_t offset = 0;
    bool is_known = false;
  };

  OffloadedGroup(UniqueFd socket, MappedFile ring, int rank, int size,
                 std::chrono::milliseconds timeout)
      : socket_(std::move(socket)),
        ring_(std::move(ring)),
        rank_(rank),
        size_(size),
        timeout_(timeout) {}

  static Result<std::unique_ptr<OffloadedGroup>> Begin(const std::string& engine,
                                                       const OffloadRequest& request, int rank,
                                                       int size, std::chrono::milliseconds timeout);
  OffloadRing& ring() const { return *reinterpret_cast<OffloadRing*>(ring_.data()); }
  Result<std::uint64_t> Ask(OffloadRequest request, int file);
  Result<Buffer> MakeBuffer(std::size_t bytes);
  Place Find(const void* memory, std::size_t bytes) const;
  Result<void> Stage(std::size_t bytes);
  Result<void> Call(program::CollectiveKind kind, const Operands& operands, int root,
                    OffloadCall call);
  Result<void> Do(const OffloadCall& call);
  Error Fail(Error error);

  UniqueFd socket_;
  MappedFile ring_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::map<const std::byte*, Buffer> buffers_;
  std::optional<Buffer> staging_;
  std::optional<Buffer> counts_;
  std::uint32_t posted_ = 0;
  std::optional<Error> failure_;
  std::mutex interruption_mutex_;
  std::optional<Error> interruption_;  // guarded
};

}  // namespace espalier::runtime
