#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/flows/flow_source.h"
#include "agent/local/local_protocol.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "proto/messages.h"

namespace espalier::agent {

// The memory that the agent shares with one client. The client may write anything anywhere at any
// time. Therefore its part is copied before it is checked, and the agent's part is never read back.
// The file is sealed, so that the client cannot truncate it.
class SlotMemory {
 public:
  struct Progress {
    std::uint32_t owner = 0;
    std::uint16_t source_port = 0;
    std::uint64_t remaining_bytes = 0;
    std::uint64_t outstanding_bytes = 0;
    std::uint64_t sent_bytes = 0;
    std::uint32_t retries = 0;
    std::uint32_t rtt_us = 0;
    TransportWait wait;
    SourceEdges edges;
  };

  // Errors: kResourceExhausted if the machine has no memory or descriptor left.
  static Result<SlotMemory> Make();

  // The file that the client maps.
  int fd() const { return file_.get(); }
  // Flows are only in the slots [0, UsedSlots()).
  std::uint32_t UsedSlots() const;
  std::uint32_t Owner(std::uint32_t slot) const;
  Progress ReadProgress(std::uint32_t slot) const;
  // Returns the progress of those connections of a split flow that the client reports.
  std::vector<PortProgress> ReadPorts(std::uint32_t slot) const;
  espalier_flow_desc ReadDescription(std::uint32_t slot) const;
  // Returns the path set of an earlier agent that the client copied for this flow (see
  // local_protocol.h); empty if there is none or it is invalid. Only for a slot to which WritePaths
  // has written nothing.
  wire::PathSet ReadKept(std::uint32_t slot, std::uint32_t serial) const;
  // Writes at most ESPALIER_MAX_PATHS paths. There must be no other writer of path sets.
  void WritePaths(std::uint32_t slot, std::uint32_t serial, const wire::PathSet& paths);

 private:
  struct Unmap {
    void operator()(espalier_local_memory* memory) const;
  };

  SlotMemory(UniqueFd file, espalier_local_memory* memory);
  espalier_local_slot& Slot(std::uint32_t slot) const;

  UniqueFd file_;
  std::unique_ptr<espalier_local_memory, Unmap> memory_;
  std::vector<std::uint64_t> sequences_;  // by slot; clients may overwrite the shared ones
};

}  // namespace espalier::agent
