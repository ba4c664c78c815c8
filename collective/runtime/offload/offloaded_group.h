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

// A rank whose collectives an engine on the same host does, in memory that both have. Buffers that
// were had from Allocate are worked on in place; others are copied through memory of that kind,
// which grows with the largest call. The calling thread sleeps meanwhile.
//
// Errors beyond those of a Communicator: kUnavailable where there is no engine or it goes (which
// ends the group; it may come back for another one), kUnsupported for an engine of another version,
// kPermissionDenied for a place where the engine does not join groups, kResourceExhausted beyond
// its limits.
// Thread safety: as a Communicator.
class OffloadedGroup : public Group {
 public:
  // The engine at that path joins the job's group for this rank, as the agent has told it; `size`
  // is what the rank's plan says.
  static Result<std::unique_ptr<OffloadedGroup>> JoinJob(const std::string& engine,
                                                         const JobRank& rank, int size,
                                                         std::chrono::milliseconds timeout);
  // A group without a job, over TCP or verbs, where the engine's configuration allows its
  // addresses. The store is one that the engine opens: "tcp://ADDRESS:PORT".
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
